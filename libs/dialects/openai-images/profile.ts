/** The profile of OpenAI's images format, a dialect of upstreams only. */
import type { UpstreamProfile } from "../profile.ts";

export const openaiImagesProfile: UpstreamProfile = { authentication: "bearer", probePath: "/models" };
