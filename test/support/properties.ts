/** Property tests play the same cases at every run; PROPERTY_SEED plays others. */
import fc from "fast-check";

fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 20_261_121) });
