import { readdirSync, readFileSync } from "node:fs";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** The files that pdf.js asks for when a PDF needs them: character maps, fonts that PDFs need not have, and decoders of
 * images that are not WebAssembly, which the server's policy forbids. The folder's name has the release: like all assets,
 * they never change. */
function pdfjsFiles(): Plugin {
  const from = new URL("node_modules/pdfjs-dist/", import.meta.url);
  return {
    name: "pdfjs-files",
    generateBundle() {
      const { version } = JSON.parse(readFileSync(new URL("package.json", from), "utf8")) as { version: string };
      const folders = ["cmaps", "standard_fonts", "wasm"];
      const names = folders.flatMap((folder) => readdirSync(new URL(folder, from)).map((name) => `${folder}/${name}`));
      for (const name of ["LICENSE", ...names]) {
        if (/\.wasm$|quickjs|qcms/i.test(name)) continue;
        this.emitFile({ type: "asset", fileName: `assets/pdfjs-${version}/${name}`, source: readFileSync(new URL(name, from)) });
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), pdfjsFiles()],
  build: {
    // Besides what is built, dist has a file of the repository's.
    emptyOutDir: false,
    // Anything inlined as data: would be kept from loading by the server's policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    // What a first visit loads is one file of less than 200 KB as it is sent.
    chunkSizeWarningLimit: 900,
  },
  // For `npx vite` beside a running server.
  server: { proxy: { "/v1": "http://127.0.0.1:7700", "/docs": "http://127.0.0.1:7700" } },
});
