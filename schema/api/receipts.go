package api

// ReceiptKeys are the public keys that verify an installation's receipts.
type ReceiptKeys struct {
	Keys []ReceiptKey `json:"keys" doc:"The first one signs; the others have signed."`
}

// ReceiptKey is one of an installation's public keys.
type ReceiptKey struct {
	ID  string `json:"id" doc:"SHA-256 of the key's 32 bytes, in hex, which receipts name."`
	Key string `json:"key" doc:"Ed25519 public key in base64."`
}
