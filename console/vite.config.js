import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

// What the build is made of. tests/e2e/test_build.py adds up the same without Node.
const SOURCES = [
  'index.html',
  'package-lock.json',
  'package.json',
  'public',
  'src',
  'svelte.config.js',
  'vite.config.js',
]

function files(path) {
  const entry = readdirSync('.', { withFileTypes: true }).find((found) => found.name === path)
  if (entry?.isFile()) return [path]
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((found) => found.isFile())
    .map((found) => join(found.parentPath, found.name).replaceAll('\\', '/'))
}

/** The SHA-256 of every source's path and bytes, in the order of the paths. */
function sourcesHash() {
  const hash = createHash('sha256')
  for (const path of SOURCES.flatMap(files).sort()) {
    hash
      .update(path + '\0')
      .update(readFileSync(path))
      .update('\0')
  }
  return hash.digest('hex')
}

const build = {
  name: 'headrace-build',
  generateBundle() {
    this.emitFile({
      type: 'asset',
      fileName: 'build.json',
      source: JSON.stringify({ sources_sha256: sourcesHash() }) + '\n',
    })
  },
}

export default defineConfig({
  plugins: [svelte(), build],
  build: {
    outDir: '../src/headrace/api/static',
    emptyOutDir: true,
    target: ['chrome123', 'firefox120', 'safari17.5'],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // a data: address is not 'self'
  },
})
