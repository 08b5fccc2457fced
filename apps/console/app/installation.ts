/**
 * The name and the logo of this installation. Control writes them into the page, so they are there
 * from its first moment.
 */
import { storeOf } from "./store.ts";

export interface Installation {
  name: string;
  /** The address of the logo; undefined without one. */
  logo: string | undefined;
}

const metaOf = (name: string) => document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content;

export const installation = storeOf<Installation>({ name: metaOf("installation") ?? "Sluice", logo: metaOf("logo") });
