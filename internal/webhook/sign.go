package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// NewSecret returns a new secret, and its form for display. It panics only if the operating
// system's randomness fails.
func NewSecret() (secret []byte, shown string) {
	secret = make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		panic(fmt.Sprintf("webhook: no randomness for a secret: %v", err))
	}
	return secret, secretPrefix + base64.StdEncoding.EncodeToString(secret)
}

// sign returns the header webhook-signature: one signature for each secret.
func sign(secrets [][]byte, id string, at time.Time, body []byte) string {
	signed := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signed[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signed, " ")
}
