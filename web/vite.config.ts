import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  build: {
    // Besides what is built, dist has a file of the repository's.
    emptyOutDir: false,
    // Anything inlined as data: would be kept from loading by the server's policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    // All of it is one file of less than 200 KB as it is sent.
    chunkSizeWarningLimit: 900,
  },
  // For `npx vite` beside a running server.
  server: { proxy: { "/v1": "http://127.0.0.1:7700", "/docs": "http://127.0.0.1:7700" } },
});
