// Runs a pack's graphs with onnxruntime-node and compares them with the pack's goldens, to 1e-4.
// usage: node verify.mjs PACK_FOLDER NODE_MODULES_PARENT
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'

const [pack, modules] = process.argv.slice(2).map((path) => resolve(path))
const ort = createRequire(join(modules, 'package.json'))('onnxruntime-node')
const goldens = JSON.parse(readFileSync(join(pack, 'goldens.json'), 'utf8'))
const threshold = Number(/\n  threshold: ([0-9.]+)/.exec(readFileSync(join(pack, 'manifest.yaml'), 'utf8'))[1])
const encoder = await ort.InferenceSession.create(join(pack, 'encoder.onnx'))
const segmenter = await ort.InferenceSession.create(join(pack, 'segmenter.onnx'))
const dimension = 256

async function embed(rows) {
  const width = Math.max(1, ...rows.map((ids) => ids.length))
  const ids = new BigInt64Array(rows.length * width)
  const mask = new BigInt64Array(rows.length * width)
  rows.forEach((row, r) => row.forEach((id, i) => {
    ids[r * width + i] = BigInt(id)
    mask[r * width + i] = 1n
  }))
  const shape = [rows.length, width]
  const feeds = { input_ids: new ort.Tensor('int64', ids, shape), attention_mask: new ort.Tensor('int64', mask, shape) }
  return (await encoder.run(feeds)).embedding.data
}

async function score(left, right) {
  const shape = [left.length / dimension, dimension]
  const feeds = { left: new ort.Tensor('float32', left, shape), right: new ort.Tensor('float32', right, shape) }
  return (await segmenter.run(feeds)).score.data
}

let worst = 0
function compare(what, got, want) {
  if (got.length !== want.length) throw new Error(`${what}: ${got.length} values, golden has ${want.length}`)
  want.forEach((value, i) => {
    const off = Math.abs(got[i] - value)
    if (!(off <= 1e-4)) throw new Error(`${what}: value ${i} is ${got[i]}, golden is ${value}`)
    worst = Math.max(worst, off)
  })
}

// All in one padded batch, then one by one: padding must not change a vector.
const want = goldens.encoder.map((g) => g.embedding)
compare('encoder, batch', await embed(goldens.encoder.map((g) => g.ids)), want.flat())
for (const [i, g] of goldens.encoder.entries()) compare(`encoder ${i}`, await embed([g.ids]), g.embedding)

const side = (name) => Float32Array.from(goldens.segmenter.flatMap((g) => g[name]))
compare('segmenter', await score(side('left'), side('right')), goldens.segmenter.map((g) => g.score))

for (const [i, g] of goldens.segmentation.entries()) {
  const vectors = await embed(g.ids)
  const scores = g.sentences.length > 1 ? await score(vectors.slice(0, -dimension), vectors.slice(dimension)) : []
  compare(`segmentation ${i}`, scores, g.scores)
  const starts = [0]
  scores.forEach((s, at) => { if (s < threshold) starts.push(at + 1) })
  if (String(starts) !== String(g.starts)) throw new Error(`segmentation ${i}: starts ${starts}, golden ${g.starts}`)
}
if (goldens.pair) {
  const graph = await ort.InferenceSession.create(join(pack, 'pair.onnx'))
  const padded = (rows) => {
    const width = Math.max(1, ...rows.map((row) => row.length))
    const ids = new BigInt64Array(rows.length * width)
    const mask = new BigInt64Array(rows.length * width)
    rows.forEach((row, r) => row.forEach((id, i) => {
      ids[r * width + i] = BigInt(id)
      mask[r * width + i] = 1n
    }))
    return [ids, mask].map((data) => new ort.Tensor('int64', data, [rows.length, width]))
  }
  const judge = async (what, rows) => {
    const [questionIds, questionMask] = padded(rows.map((g) => g.question_ids))
    const [textIds, textMask] = padded(rows.map((g) => g.text_ids))
    const got = await graph.run({ question_ids: questionIds, question_mask: questionMask, text_ids: textIds, text_mask: textMask })
    const width = textIds.dims[1]
    rows.forEach((g, r) => {
      compare(`${what} ${r}, scores`, got.scores.data.slice(3 * r, 3 * r + 3), g.scores)
      for (const name of ['start', 'end']) {
        compare(`${what} ${r}, ${name}`, got[name].data.slice(r * width, r * width + g.text_ids.length), g[name])
      }
    })
  }
  // Pairs of all questions in one padded batch, then one by one.
  await judge('pair, batch', goldens.pair)
  for (const g of goldens.pair) await judge(`pair ${g.question} / ${g.text}`, [g])
}
console.log(`${pack}: every golden reproduced, largest difference ${worst.toExponential(1)}`)
