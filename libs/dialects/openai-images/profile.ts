/** OpenAI's images format, which only upstreams speak as a dialect of their own. */
import type { UpstreamProfile } from "../profile.ts";

export const openaiImagesProfile: UpstreamProfile = { authentication: "bearer", probePath: "/models" };
