"""The texts of the golden files, written for this purpose; no data set is quoted."""

WORDS = [
    "", " ", "\n\t ", "a", "A", "Hello", "hello world", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
    "It's a dog's life, isn't it?", "don't", "rock'n'roll", "state-of-the-art", "e-mail", "U.S.A.", "Ph.D.", "e.g. this",
    "e.g., that", "C++", "C#", ".NET", "node.js", "foo_bar", "__init__", "snake_case_name", "camelCaseName", "PascalCase",
    "SCREAMING", "mIxEd CaSe", "HTTP/1.1 200 OK", "https://example.org/a/b?c=d&e=f#g", "user@example.org",
    "/usr/local/bin", "C:\\Windows\\System32", "a\\b", "1", "12", "123", "1234", "12345", "1234567890", "3.14159",
    "1,234,567.89", "-42", "+7", "1e-4", "0xDEADBEEF", "50%", "$3.50", "€20", "£1,000", "¥500", "10 km/h", "5'11\"",
    "12:30", "2024-02-29", "29/02/2024", "Q3 2023", "1st 2nd 3rd 4th", "v1.2.3-rc.4", "192.168.0.1", "::1", "½ cup",
    "x² + y² = z²", "H₂O", "E=mc²", "a≤b", "α + β = γ", "∑ ∞ √ ∂", "→ ← ↑ ↓", "©2020", "™", "№ 5", "§ 7", "¶",
]

PUNCTUATION = [
    "!", "?", ".", "...", "…", "?!", "!!!", "--", "—", "–", "(a)", "[b]", "{c}", "<d>", "\"e\"", "'f'", "‘g’", "“h”",
    "«i»", "„j“", "a;b:c", "a,b", "a , b", "#hashtag", "@name", "a*b", "a/b", "a|b", "a~b", "a`b", "a^b", "a=b", "a+b",
    "$%^&*()", "[CLS]", "[SEP] [PAD]", "[MASK]ed", "[UNK]", "##ing", "## heading", "# Title", "- item", "* item", "1. item",
    "| a | b |", "```go", "<p>text</p>", "&amp;", "、。「」", "¿Qué?", "¡Hola!", "·", "•", "‰", "†", "‹›", "_", "-",
]

UNICODE = [
    "café", "cafe\u0301", "naïve", "résumé", "Ångström", "A\u030angstro\u0308m", "über", "ÜBER", "straße", "STRASSE", "ﬁne",
    "ﬀ", "œuvre", "Æther", "Øre", "Łódź", "Dvořák", "Čeština", "Žižek", "İstanbul", "ISTANBUL", "ıssız", "ñandú",
    "Ñ", "ﾊﾝｶｸ", "Ｆｕｌｌ ｗｉｄｔｈ", "①②③", "Ⅷ", "Ελλάδα", "ΟΔΟΣ", "Σίσυφος", "ς", "Москва", "ёлка", "Йод", "Київ",
    "שלום", "שָׁלוֹם", "مرحبا", "مُحَمَّد", "नमस्ते", "ไทย", "한국어", "대한민국", "가", "ひらがな", "カタカナ", "ガギグ",
    "か\u3099", "中文", "北京大学", "中国人民 hello 世界", "東京タワー", "漢字かな交じり文", "a中b", "豈", "\u4e00\u9fa5", "𠀀",
    "Tiếng Việt", "Việt Nam", "e\u0301\u0302\u0323", "Z\u0351\u036b\u0343a\u0321l\u0353g\u0348o", "ĳ", "Ǆ", "ﬃ", "Ⓐ", "ª º",
    "😀", "👍🏽", "👩‍👩‍👧", "🇩🇪", "❤️", "☃", "a😀b", "✓ done", "★★★", "♫", "\U0001F680 launch", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ǅ", "ß", "ẞ",
]

CONTROL = [
    "a\tb", "a\nb", "a\r\nb", "a\x00b", "a\x07b", "a\x0bb", "a\x0cb", "a\x1bb", "a\x7fb", "a\x85b", "a\xa0b", "a\xadb",
    "a\u1680b", "a\u2003b", "a\u200bb", "a\u200cb", "a\u200db", "a\u200eb", "a\u2028b", "a\u2029b", "a\u202eb", "a\u202fb",
    "a\u2060b", "a\u3000b", "\ufeffabc", "a\ufffdb", "a\ufffcb", "a\ue000b", "\x01\x02\x03", "\u200b", "\u0301", "x\u0301\u0301",
    "   leading", "trailing   ", "in   between", "\u3000全角\u3000",
]

LONG = [
    "a" * 99, "a" * 100, "a" * 101, "a" * 5000, "antidisestablishmentarianism", "Donaudampfschifffahrtsgesellschaftskapitän",
    "pneumonoultramicroscopicsilicovolcanoconiosis", "é" * 100, "é" * 101, "ab" * 50, "ab" * 51, "0" * 100, "0" * 101,
    "xqzjkvbw", "qqqqqqqq", "word " * 600, "!" * 300, "中" * 150, "a-" * 80, "lorem" * 20, "The end.\n" * 40,
]

SENTENCES = [
    "Employees may carry over up to five days of unused leave into the next calendar year.",
    "The supplier shall deliver the goods within thirty days of the date of the purchase order.",
    "Our revenue grew by 12 % in the third quarter, mostly because of new contracts in the north.",
    "How many days of notice does the tenant have to give?",
    "What is the maximum temperature at which the pump may run?",
    "Who approves travel expenses above 2,000 euros?",
    "When was the bridge over the river finished?",
    "The pump must not be run dry. Before starting it, open the inlet valve and wait until the gauge shows 2 bar.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "Once upon a time a miller lived with his three sons at the edge of a dark forest.",
    "Patients with a fever that lasts longer than three days should see a doctor.",
    "Okay, so, um, let's talk about the remote control and, uh, whether the buttons are big enough.",
    "The treaty was signed in 1648 and ended thirty years of war in central Europe.",
    "To reset your password, click the link in the e-mail; it expires after 24 hours.",
    "NULL values are ignored by COUNT(column) but not by COUNT(*).",
    "Le contrat prend effet à la date de sa signature par les deux parties.",
    "Der Vertrag kann mit einer Frist von drei Monaten gekündigt werden.",
    "北京是中华人民共和国的首都。",
    "Article 7 - Liability. Neither party is liable for delays caused by events outside its control.",
    "invoice total net amount VAT 19 % due date payment terms",
]

# Lists of sentences as a section holds them, with a change of subject inside.
SECTIONS = [
    [
        "Every employee has 28 days of paid leave a year.",
        "Leave is asked for in the staff portal, at least two weeks ahead.",
        "Up to five unused days may be taken until the end of March.",
        "The canteen is open from eleven to two.",
        "It offers three dishes a day, one of them without meat.",
    ],
    [
        "The pump is delivered with a filter and two hoses.",
        "Check that the filter is clean before the first start.",
        "A dirty filter halves the flow and damages the motor.",
        "The manufacturer was founded in 1931 in a small town near the coast.",
        "Today it employs about four hundred people.",
    ],
    [
        "The city lies on both banks of the river.",
        "Its old quarter was built in the twelfth century.",
        "The cathedral, which dominates it, was finished three hundred years later.",
        "The football club won the national championship twice.",
        "Its stadium seats thirty thousand spectators.",
        "The university has twelve faculties.",
    ],
    [
        "The supplier delivers the goods free of charge to the buyer's warehouse.",
        "Risk passes to the buyer on delivery.",
        "The buyer examines the goods within five working days.",
        "Invoices are payable within thirty days.",
        "Late payment bears interest at five per cent a year.",
    ],
    [
        "Bees live in colonies of up to fifty thousand animals.",
        "Each colony has a single queen, who lays all the eggs.",
        "She may live for five years.",
        "Honey was the only sweetener known to the ancient world.",
        "It keeps for decades when it is stored dry.",
    ],
    [
        "The king had three daughters.",
        "The youngest was so fair that the sun itself wondered at her.",
        "One day she lost her golden ball in the well.",
        "A frog put his ugly head out of the water.",
        "\"Why are you crying?\" he asked.",
    ],
    [
        "The engine burns a mixture of liquid oxygen and kerosene.",
        "It produces a thrust of 800 kilonewtons at sea level.",
        "Nine of them drive the first stage.",
        "The launch site was chosen for its nearness to the equator.",
        "Critics said that the programme cost too much.",
        "The government answered that it had created eleven thousand jobs.",
    ],
    [
        "Symptoms of the disease include fever, headache and a rash.",
        "They usually appear two to ten days after infection.",
        "Most patients recover without treatment.",
        "The disease is caused by a virus that mosquitoes carry.",
        "Nets and repellents are the best protection.",
    ],
    ["A section of one sentence has no neighbour to score."],
    [
        "Revenue rose to 41 million euros.",
        "Costs grew more slowly, by four per cent.",
        "The margin improved accordingly.",
        "The supervisory board met six times.",
        "All members attended every meeting.",
        "",
        "The auditor issued an unqualified opinion.",
    ],
]

TOKENIZER = WORDS + PUNCTUATION + UNICODE + CONTROL + LONG + SENTENCES
ENCODER = (
    SENTENCES
    + ["", "Hello", "12345", "café", "中文", "😀", "the the the the", "The pump must not be run dry. " * 60]
    + [" ".join(section) for section in SECTIONS[:4]]
)

# What the pair model is asked, and of which texts.
QUESTIONS = [
    "How many days of unused leave may be carried over?",
    "who finished the cathedral",
    "What happens when the filter is dirty?",
    "interest rate late payment",
]
TEXTS = [
    "Leave\n" + " ".join(SECTIONS[0]),
    SENTENCES[0],
    "Pump P-200\nMaintenance\n" + " ".join(SECTIONS[1]),
    "History of the city\n" + " ".join(SECTIONS[2]),
    " ".join(SECTIONS[3]),
    "Hello",
    " ".join(SECTIONS[5]) + " " + " ".join(SECTIONS[6]) + " " + " ".join(SECTIONS[7]),
]
