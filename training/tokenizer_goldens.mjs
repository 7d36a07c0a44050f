// Writes the encodings that Go's tokenizer is held to: those of Hugging Face's own tokenizers library, over its Node
// binding, for a small vocabulary under several settings. Offsets are in UTF-8 bytes.
// usage: npm install --ignore-scripts --prefix DIR tokenizers@0.23.2
//        node tokenizer_goldens.mjs DIR ../internal/inference/tokenizer/testdata
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const [modules, folder] = process.argv.slice(2).map((path) => resolve(path))
const { Tokenizer } = createRequire(join(modules, 'package.json'))('tokenizers')
const pieces = readFileSync(join(folder, 'vocab.txt'), 'utf8').split('\n').slice(0, -1)
const vocab = Object.fromEntries(pieces.map((piece, id) => [piece, id]))

const texts = [
  '', ' ', '\n\t ', 'a', 'Hello, World!', 'The quick brown fox jumps over the lazy dog.', "don't isn't rock'n'roll",
  'state-of-the-art e-mail U.S.A. C++ C# .NET foo_bar', 'https://example.org/a/b?c=d&e=f#g user@example.org',
  '1,234,567.89 -42 3.14159 50% $3.50 €20 2024-02-29 v1.2.3-rc.4 192.168.0.1', 'x² + y² = z² H₂O ½ № §',
  'café cafe\u0301 naïve nai\u0308ve résumé Ångström A\u030angstro\u0308m ÜBER über Straße STRASSE ẞ', 'ﬁne ﬀ œuvre Æther Łódź Dvořák',
  'İstanbul ISTANBUL ıssız', 'ΟΔΟΣ Σίσυφος ς Ελλάδα', 'Москва ёлка Йод', 'שָׁלוֹם שלום', 'مرحبا بالعالم', 'مُحَمَّد العَرَبِيَّة', 'اللغة العربية، ١٢٣؟',
  'नमस्ते ไทย', '한국어 대한민국 가', 'ひらがな カタカナ ガギグ か\u3099', '中文', '北京大学 中国人民 hello 世界', '東京タワー 漢字かな交じり文', 'a中b 豈 𠀀b',
  'Tiếng Việt e\u0301\u0302\u0323', 'Z\u0351\u036b\u0343a\u0321l\u0353g\u0348o', 'ĳ Ǆ ǅ ﬃ Ⓐ ª º', '😀 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ ☃ a😀b ★★★ 🚀 launch', '𝔘𝔫𝔦𝔠𝔬𝔡𝔢',
  'a\tb\nc\r\nd', 'a\u0000b\u0007c\u001bd\u007fe', 'a\u0085b\u00a0c\u00add', 'a\u200bb\u200cc\u200dd\u200ee\u2028f\u2029g\u202eh\u2060i\u3000j', '\ufeffabc \ufffdb \ufffc \ue000x',
  '\u0301', 'x\u0301\u0301', '\u0301abc', 'ab\u0301c', 'a\u0000\u0301b', '\u302e\u302f가\u302e', '   leading trailing   ', '! ? ... … ?! -- — – (a) [b] {c} <d> “h” «i» „j“ 、。「」 ¿Qué? ¡Hola!',
  '## heading ##ing __init__ #hashtag @name `a` a|b a~b a^b', 'a'.repeat(99), 'a'.repeat(100), 'a'.repeat(101), 'é'.repeat(100), 'é'.repeat(101), 'a'.repeat(5000), '中'.repeat(150),
  'xqzjkvbw'.repeat(14), 'Donaudampfschifffahrtsgesellschaftskapitän', 'pneumonoultramicroscopicsilicovolcanoconiosis', '!'.repeat(300), 'word '.repeat(200),
]
// Texts of characters that meet nowhere: a fixed generator picks them from ranges where rules differ. U+061D is left
// out: it became punctuation in Unicode 14, which that library's tables are too old for.
let seed = 20240229
const random = (n) => { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; return Math.floor(seed / 4294967296 * n) }
const ranges = [[0x20, 0x7e], [0x20, 0x7e], [0x61, 0x7a], [0x61, 0x7a], [0x00, 0x1f], [0x7f, 0xff], [0x100, 0x24f], [0x300, 0x36f], [0x370, 0x3ff],
  [0x400, 0x45f], [0x591, 0x5f4], [0x600, 0x61c], [0x61e, 0x65f], [0x660, 0x6d3], [0x900, 0x94d], [0xe00, 0xe4e], [0x1e00, 0x1eff], [0x2000, 0x206f], [0x20a0, 0x20bf],
  [0x2100, 0x2138], [0x3000, 0x303f], [0x3040, 0x30ff], [0x4e00, 0x4e40], [0xac00, 0xac40], [0xf900, 0xf920], [0xfb00, 0xfb06], [0xff00, 0xff60], [0x1f300, 0x1f64f], [0x20000, 0x20010]]
for (let i = 0; i < 150; i++) {
  let text = ''
  for (let n = 1 + random(24); n > 0; n--) {
    const [low, high] = ranges[random(ranges.length)]
    text += String.fromCodePoint(low + random(high - low + 1))
  }
  texts.push(text)
}

const settings = [
  { clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true }, // as bert-base-uncased
  { clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: false }, // as bert-base-cased
  { clean_text: true, handle_chinese_chars: true, strip_accents: false, lowercase: true },
  { clean_text: true, handle_chinese_chars: false, strip_accents: true, lowercase: false },
]

function tokenizerFile(normalizer) {
  const special = (id, type) => ({ SpecialToken: { id, type_id: type } })
  const sequence = (id, type) => ({ Sequence: { id, type_id: type } })
  const single = [special('[CLS]', 0), sequence('A', 0), special('[SEP]', 0)]
  return {
    version: '1.0', truncation: null, padding: null, added_tokens: [],
    normalizer: { type: 'BertNormalizer', ...normalizer }, pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: { type: 'TemplateProcessing', single, pair: [...single, sequence('B', 1), special('[SEP]', 1)],
      special_tokens: Object.fromEntries(['[CLS]', '[SEP]'].map((id) => [id, { id, ids: [vocab[id]], tokens: [id] }])) },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab },
  }
}

const rows = []
const scratch = mkdtempSync(join(tmpdir(), 'tokenizer-goldens-'))
for (const normalizer of settings) {
  const path = join(scratch, 'tokenizer.json')
  writeFileSync(path, JSON.stringify(tokenizerFile(normalizer)))
  const tokenizer = Tokenizer.fromFile(path)
  const cases = []
  for (const text of texts) {
    const encoding = await tokenizer.encode(text, null, { addSpecialTokens: false })
    const bytes = [0]
    for (const char of text) bytes.push(bytes.at(-1) + Buffer.byteLength(char))
    cases.push({ text, ids: encoding.getIds(), spans: encoding.getOffsets().flat().map((at) => bytes[at]) })
  }
  rows.push({ normalizer, cases })
}

const pairs = []
const path = join(scratch, 'tokenizer.json')
writeFileSync(path, JSON.stringify(tokenizerFile(settings[0])))
const whole = Tokenizer.fromFile(path)
const words = 'the quick brown fox jumps over the lazy dog and runs away from all of it'.split(' ')
for (const strategy of ['longest_first', 'only_second']) {
  for (const limit of [0, 7, 8, 12, 13, 20]) {
    for (const [n, m] of [[0, 0], [0, 3], [3, 0], [2, 3], [3, 16], [16, 3], [8, 9], [9, 8], [5, 4], [4, 5], [1, 16]]) {
      const tokenizer = Tokenizer.fromFile(path)
      if (limit) tokenizer.setTruncation(limit, { strategy: strategy === 'longest_first' ? 'LongestFirst' : 'OnlySecond' })
      const [first, second] = [words.slice(0, n).join(' '), words.slice(-m || words.length).join(' ')]
      const encoding = await tokenizer.encode(first, second).catch(() => null)
      if (encoding === null) continue // that library refuses a first text that is too long alone
      // Before the strategy, that library cuts each text near the limit; which is the longer then depends on where its
      // words end. Two texts that are longer than the limit alone are left out.
      const lengths = await Promise.all([first, second].map(async (text) => (await whole.encode(text, null, { addSpecialTokens: false })).getIds().length))
      if (limit && Math.min(...lengths) >= limit) continue
      pairs.push({ first, second, limit, strategy, ids: encoding.getIds(), types: encoding.getTypeIds() })
    }
  }
}
rmSync(scratch, { recursive: true })
const lines = (list) => '[\n' + list.map((row) => JSON.stringify(row)).join(',\n') + '\n]'
writeFileSync(join(folder, 'parity.json'), '{"settings": [\n' +
  rows.map((row) => `{"normalizer": ${JSON.stringify(row.normalizer)}, "cases": ${lines(row.cases)}}`).join(',\n') + `],\n"pairs": ${lines(pairs)}}\n`)
console.log(`${settings.length} settings, ${texts.length} texts, ${pairs.length} pairs`)
