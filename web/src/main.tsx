import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { APIError } from "./api";
import { App } from "./app";
import "./style.css";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      // Refusals are final; a server that cannot be reached or is too busy may be back.
      retry: (failures, error) =>
        failures < 2 && (!(error instanceof APIError) || [0, 429, 503].includes(error.status)),
    },
  },
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
