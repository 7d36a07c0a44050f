// Runs a graph with onnxruntime-node: a request per line of standard input, batches to make tensors
// of or one of these to run; the seconds of its runs per line of standard output.
// usage: node models_node.mjs NODE_MODULES_PARENT GRAPH
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'

const [modules, graph] = process.argv.slice(2).map((path) => resolve(path))
const ort = createRequire(join(modules, 'package.json'))('onnxruntime-node')
// As the model server sets its sessions on a machine of two cores: one thread per run, flushing
// denormals.
const session = await ort.InferenceSession.create(graph, {
  intraOpNumThreads: 1,
  extra: { session: { set_denormal_as_zero: '1', intra_op: { allow_spinning: '0' } } },
})

function tensors(rows) {
  const shape = [rows.length, rows[0].length]
  const ids = BigInt64Array.from(rows.flat(), BigInt)
  return [new ort.Tensor('int64', ids, shape), new ort.Tensor('int64', new BigInt64Array(ids.length).fill(1n), shape)]
}

function feeds(rows, question) {
  const [ids, mask] = tensors(rows)
  if (!question) return { input_ids: ids, attention_mask: mask }
  const [questionIDs, questionMask] = tensors(rows.map(() => question))
  return { question_ids: questionIDs, question_mask: questionMask, text_ids: ids, text_mask: mask }
}

let all = []
for await (const line of createInterface({ input: process.stdin })) {
  const { batches, question, batch, runs } = JSON.parse(line)
  if (batches) {
    all = batches.map((rows) => feeds(rows, question))
    for (const one of all) await session.run(one)
  }
  const begin = performance.now()
  for (let i = 0; i < runs; i++) await session.run(all[batch])
  console.log(JSON.stringify({ seconds: (performance.now() - begin) / 1000 }))
}
