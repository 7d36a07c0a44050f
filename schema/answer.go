package schema

// NoAnswer is the text of an answer that is not supported.
const NoAnswer = "The documents do not say."
