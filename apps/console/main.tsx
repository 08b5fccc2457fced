/** Starts the console. */
import "./app/mantine.css";
import "@mantine/notifications/styles.css";
import "./app/style.css";
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { whenSignedOut } from "./app/call.ts";
import { LanguageProvider } from "./app/language.tsx";
import { queryClient } from "./app/queries.ts";
import { preloadFirstPage, preloadPages, router } from "./app/router.tsx";
import { meQuery } from "./app/session.ts";
import { theme } from "./app/theme.ts";

// The page's guard then leads to the sign-in, and back.
whenSignedOut(() => {
  queryClient.setQueryData(meQuery.queryKey, null);
  void router.invalidate();
});
preloadFirstPage();
createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto">
      <QueryClientProvider client={queryClient}>
        <LanguageProvider>
          <Notifications position="bottom-right" limit={3} />
          <RouterProvider router={router} />
        </LanguageProvider>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);

/** The first page comes first. */
const preloadAfterMs = 2_000;
const { connection } = navigator as { connection?: { saveData?: boolean } };
if (connection?.saveData !== true)
  addEventListener("load", () => setTimeout(() => void preloadPages(), preloadAfterMs));
