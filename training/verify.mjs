// Runs a pack's graphs with onnxruntime-node and compares them with the pack's goldens, to 1e-4.
// usage: node verify.mjs PACK_FOLDER NODE_MODULES_PARENT
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'

const [pack, modules] = process.argv.slice(2).map((path) => resolve(path))
process.env.ORT_DISABLE_TELEMETRY = '1' // it is read when the library is loaded
const ort = createRequire(join(modules, 'package.json'))('onnxruntime-node')
const goldens = JSON.parse(readFileSync(join(pack, 'goldens.json'), 'utf8'))
const manifest = readFileSync(join(pack, 'manifest.yaml'), 'utf8')
// A number of a section of the manifest.
const number = (section, name, otherwise) => Number(new RegExp(`\\n  ${name}: ([0-9.]+)`).exec(new RegExp(`\\n${section}:(\\n .*)+`).exec(manifest)[0])?.[1] ?? otherwise)
const setting = (name) => number('segmenter', name, 1)
const threshold = setting('threshold')
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

// The two sides of every place: means of as many sentences as the manifest says, weighted by distance, at unit length.
function sides(vectors) {
  const n = vectors.length / dimension
  const [width, decay] = [setting('window'), setting('decay')]
  const mean = (at, step) => {
    const sum = new Float64Array(dimension)
    for (let far = 0; far < width && at + step * far >= 0 && at + step * far < n; far++) {
      for (let i = 0; i < dimension; i++) sum[i] += decay ** far * vectors[(at + step * far) * dimension + i]
    }
    const length = Math.hypot(...sum)
    return length > 0 ? sum.map((x) => x / length) : sum
  }
  const places = Array.from({ length: n - 1 }, (_, i) => i)
  return [places.map((i) => mean(i, -1)), places.map((i) => mean(i + 1, 1))].map((rows) => Float32Array.from(rows.flatMap((r) => [...r])))
}

let worst = 0
function compare(what, got, want, tolerance = 1e-4) {
  if (got.length !== want.length) throw new Error(`${what}: ${got.length} values, golden has ${want.length}`)
  want.forEach((value, i) => {
    const off = Math.abs(got[i] - value)
    if (!(off <= tolerance)) throw new Error(`${what}: value ${i} is ${got[i]}, golden is ${value}`)
    if (tolerance === 1e-4) worst = Math.max(worst, off)
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
  const scores = g.sentences.length > 1 ? await score(...sides(vectors)) : []
  compare(`segmentation ${i}`, scores, g.scores)
  const starts = [0]
  scores.forEach((s, at) => { if (s < threshold) starts.push(at + 1) })
  if (String(starts) !== String(g.starts)) throw new Error(`segmentation ${i}: starts ${starts}, golden ${g.starts}`)
}
for (const graphName of ['pair', 'reranker'].filter((name) => goldens[name])) {
  const graph = await ort.InferenceSession.create(join(pack, `${graphName}.onnx`))
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
  const tolerance = number(graphName, 'tolerance', 1e-4)
  const judge = async (what, rows) => {
    const [questionIds, questionMask] = padded(rows.map((g) => g.question_ids))
    const [textIds, textMask] = padded(rows.map((g) => g.text_ids))
    const inputs = { question_ids: questionIds, question_mask: questionMask, text_ids: textIds, text_mask: textMask }
    const got = await graph.run(inputs)
    const width = textIds.dims[1]
    rows.forEach((g, r) => {
      compare(`${what} ${r}, scores`, got.scores.data.slice(3 * r, 3 * r + 3), g.scores, tolerance)
      for (const name of ['start', 'end']) {
        compare(`${what} ${r}, ${name}`, got[name].data.slice(r * width, r * width + g.text_ids.length), g[name], tolerance)
      }
    })
    if (!rows.some((g) => g.scores_without_spans)) return
    const { scores } = await graph.run({ ...inputs, spans: new ort.Tensor('int64', [0n], [1]) })
    rows.forEach((g, r) => {
      if (g.scores_without_spans) compare(`${what} ${r}, without spans`, scores.data.slice(3 * r, 3 * r + 3), g.scores_without_spans, tolerance)
    })
  }
  // Pairs of all questions in one padded batch, then one by one.
  await judge(`${graphName}, batch`, goldens[graphName])
  for (const g of goldens[graphName]) await judge(`${graphName} ${g.question} / ${g.text}`, [g])
}
const open = (name) => ort.InferenceSession.create(join(pack, `${name}.onnx`))
const tensor = (type, data, shape) => new ort.Tensor(type, (type === 'int64' ? BigInt64Array : Float32Array).from(data), shape)
const counts = {}
if (goldens.linker) {
  const graph = await open('linker')
  for (const [i, g] of goldens.linker.entries()) {
    const n = g.passages.length
    // Goldens name passages by their text, of which those of the encoder have the vectors.
    const vectors = g.passages.map((text) => goldens.encoder.find((e) => e.text === text).embedding)
    const got = await graph.run({ vectors: tensor('float32', vectors.flat(), [1, n, dimension]), mask: tensor('int64', Array(n).fill(1n), [1, n]) })
    compare(`linker ${i}`, got.attention.data, g.attention.flat())
  }
}
if (goldens.detector) {
  const graph = await open('detector')
  const rows = goldens.detector.map((g) => [...g.pairs.flat(), ...Array(20 - 2 * g.pairs.length).fill(0)])
  compare('detector', (await graph.run({ scores: tensor('float32', rows.flat(), [rows.length, 20]) })).enough.data, goldens.detector.map((g) => g.enough))
}
if (goldens.fuser) {
  const graph = await open('fuser')
  // Goldens name texts; the pair model's have the ids of the same questions and texts.
  const question = (text) => goldens.pair.find((g) => g.question === text).question_ids
  const passage = (text) => goldens.pair.find((g) => g.text === text).text_ids
  for (const [i, g] of goldens.fuser.entries()) {
    const ids = question(g.question)
    const rows = g.texts.map((text) => [...ids, ...passage(text)].slice(0, 256))
    const [n, width] = [rows.length, Math.max(...rows.map((row) => row.length))]
    const filled = (value) => rows.flatMap((row, r) => Array.from({ length: width }, (_, at) => (at < row.length ? BigInt(value(r, at)) : 0n)))
    const feeds = { input_ids: filled((r, at) => rows[r][at]), attention_mask: filled(() => 1), passage_mask: filled((_, at) => (at < ids.length ? 0 : 1)) }
    for (const name of Object.keys(feeds)) feeds[name] = tensor('int64', feeds[name], [n, width])
    const { attention } = await graph.run(feeds)
    for (const s of g.settings) {
      // Eq. 3: the mean of the highest raw scores of a text's tokens, over layers and heads.
      const scores = rows.map((row, r) => {
        let sum = 0
        for (let head = 0; head < attention.dims[0]; head++) {
          const at = (head * n + r) * width
          const raw = [...attention.data.slice(at + (s.with_question ? 0 : ids.length), at + row.length)].sort((a, b) => b - a).slice(0, s.tokens)
          sum += raw.reduce((a, b) => a + b, 0) / raw.length
        }
        return sum / attention.dims[0]
      })
      compare(`fuser ${i}, ${s.tokens} tokens`, scores, s.scores)
    }
  }
}
for (const [name, rows] of Object.entries(goldens)) counts[name] = rows.length
console.log(`${pack}: every golden reproduced (${Object.entries(counts).map(([name, n]) => `${name} ${n}`).join(', ')}), largest difference ${worst.toExponential(1)}`)
