/** The pages and their addresses. Each page is loaded when it is first needed. */
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
  type StaticDataRouteOption,
} from "@tanstack/react-router";
import { Dialogs } from "../parts/dialogs.tsx";
import { Failure, NotFound, Waiting } from "../parts/page.tsx";
import { type Search, searchOf } from "./address.ts";
import { queryClient, read } from "./queries.ts";
import { meQuery } from "./session.ts";
import { Shell } from "./shell.tsx";

const Root = () => (
  <>
    <Outlet />
    <Dialogs />
  </>
);

const root = createRootRouteWithContext<Record<never, never>>()({
  component: Root,
  validateSearch: searchOf,
  notFoundComponent: NotFound,
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  component: lazyRouteComponent(() => import("../pages/sign-in.tsx"), "SignIn"),
});
const invitation = createRoute({
  getParentRoute: () => root,
  path: "/invitation",
  component: lazyRouteComponent(() => import("../pages/invitation.tsx"), "Invitation"),
});
const newPassword = createRoute({
  getParentRoute: () => root,
  path: "/password",
  component: lazyRouteComponent(() => import("../pages/new-password.tsx"), "NewPassword"),
});

/** The pages are open to those who are signed in. */
async function requireSignIn({ location }: { location: Parameters<typeof signInSearch>[0] }): Promise<void> {
  if ((await queryClient.ensureQueryData(meQuery)) !== null) return;
  throw redirect({ to: "/sign-in", search: signInSearch(location) });
}

/** Without the frame of the others, for a screen on a wall. */
const wall = createRoute({
  getParentRoute: () => root,
  path: "/operations/wall",
  component: lazyRouteComponent(() => import("../pages/wall.tsx"), "Wall"),
  beforeLoad: requireSignIn,
});

/**
 * Everything behind the sign-in, and the pages that are public if the catalogue has a public group.
 */
const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  component: Shell,
  beforeLoad: async ({ location, matches }) => {
    const isSignedIn = (await queryClient.ensureQueryData(meQuery)) !== null;
    if (!isSignedIn && matches.at(-1)?.staticData.isPublic && (await hasPublicCatalogue())) return;
    await requireSignIn({ location });
  },
});

/** The page to return to; the start page may have come with an error of sign-in instead. */
const signInSearch = ({ pathname, href, search }: { pathname: string; href: string; search: Search }): Search =>
  pathname === "/" ? { error: search.error } : { to: href };

/** Only meaningful without sign-in, which shows the public group alone. */
const hasPublicCatalogue = () =>
  queryClient.ensureQueryData(read("readCatalogue")).then(
    () => true,
    () => false,
  );

/** Loads the code of the pages. */
const loads: (() => Promise<unknown>)[] = [];

const page = <Path extends string, Module extends Record<string, unknown>>(
  path: Path,
  load: () => Promise<Module>,
  name: keyof Module & string,
  staticData: StaticDataRouteOption = {},
) => {
  loads.push(load);
  return createRoute({ getParentRoute: () => inside, path, component: lazyRouteComponent(load, name), staticData });
};

/**
 * Loads the code of the other pages one after another, while the browser has nothing else to do.
 */
export async function preloadPages(): Promise<void> {
  for (const load of loads) {
    await new Promise((resolve) => requestIdleCallback(resolve));
    await load().catch(() => undefined);
  }
}

const pages = [
  page("/", () => import("../pages/start.tsx"), "Start"),
  page("/keys", () => import("../pages/keys.tsx"), "Keys"),
  page("/keys/$key", () => import("../pages/key.tsx"), "Key"),
  page("/models", () => import("../pages/models.tsx"), "Models", { isPublic: true }),
  page("/models/$model", () => import("../pages/model.tsx"), "Model", { isPublic: true }),
  page("/playground", () => import("../pages/playground.tsx"), "Playground"),
  page("/usage", () => import("../pages/usage.tsx"), "Usage"),
  page("/requests", () => import("../pages/requests.tsx"), "Requests"),
  page("/requests/$id", () => import("../pages/request.tsx"), "Request"),
  page("/batches", () => import("../pages/batches.tsx"), "Batches"),
  page("/batches/new", () => import("../pages/new-batch.tsx"), "NewBatch"),
  page("/batches/$batch", () => import("../pages/batch.tsx"), "Batch"),
  page("/files", () => import("../pages/files.tsx"), "Files"),
  page("/webhooks", () => import("../pages/webhooks.tsx"), "Webhooks"),
  page("/operations", () => import("../pages/operations.tsx"), "Operations"),
  page("/catalogue", () => import("../pages/catalogue.tsx"), "Catalogue"),
  page("/catalogue/models/$model", () => import("../pages/catalogue-model.tsx"), "CatalogueModel"),
  page("/accounts", () => import("../pages/accounts.tsx"), "Accounts"),
  page("/accounts/$account", () => import("../pages/account.tsx"), "Account"),
  page("/accounts/$account/statement", () => import("../pages/statement.tsx"), "Statement"),
  page("/audit", () => import("../pages/audit.tsx"), "Audit"),
  page("/people", () => import("../pages/people.tsx"), "People"),
  page("/settings", () => import("../pages/settings.tsx"), "Settings"),
  page("/me", () => import("../pages/me.tsx"), "Me"),
] as const;

export const router = createRouter({
  routeTree: root.addChildren([signIn, invitation, newPassword, wall, inside.addChildren(pages)]),
  defaultPreload: "intent",
  defaultPendingComponent: Waiting,
  defaultPendingMs: 150,
  // A page is shown as soon as it can be, even if what stands for it was just drawn.
  defaultPendingMinMs: 0,
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
  // Search values stay texts, so that addresses read well.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const fields = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
    const text = new URLSearchParams(fields as [string, string][]).toString();
    return text === "" ? "" : `?${text}`;
  },
});

/**
 * Loads the code of the page at the browser's address. The router alone would do so only after it
 * has read who is signed in.
 */
export function preloadFirstPage(): void {
  for (const { routeId } of router.matchRoutes(router.latestLocation))
    void router.loadRouteChunk(router.routesById[routeId as keyof typeof router.routesById]);
}

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
  interface StaticDataRouteOption {
    /** Open without sign-in if the catalogue has a public group. */
    isPublic?: boolean;
  }
}
