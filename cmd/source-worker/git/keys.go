package git

import (
	"bytes"
	"errors"
	"net"

	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"

	"github.com/sluice-rag/sluice/internal/source"
)

// errHostKey is the error of a server whose key differs from the one in the settings.
var errHostKey = errors.New("the server's key is another one")

// sshAuth authenticates with a private key, and accepts only one known host key.
type sshAuth struct {
	*gitssh.PublicKeys
	host ssh.PublicKey
}

func newSSHAuth(user, private, host string) (*sshAuth, error) {
	if private == "" || host == "" {
		return nil, &source.FieldError{Field: "private_key", Reason: "over SSH, private_key and host_key are needed"}
	}
	known, _, _, _, err := ssh.ParseAuthorizedKey([]byte(host))
	if err != nil {
		return nil, &source.FieldError{Field: "host_key", Reason: "it is not a public key such as ssh-ed25519 AAAA..."}
	}
	signer, err := ssh.ParsePrivateKey([]byte(private))
	if err != nil {
		return nil, &source.FieldError{Field: "private_key", Reason: err.Error()}
	}
	if user == "" {
		user = "git"
	}
	return &sshAuth{PublicKeys: &gitssh.PublicKeys{User: user, Signer: signer}, host: known}, nil
}

// ClientConfig implements ssh.AuthMethod of go-git. It requests a host key of the known key's type.
func (k *sshAuth) ClientConfig() (*ssh.ClientConfig, error) {
	config := &ssh.ClientConfig{User: k.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(k.Signer)}, HostKeyAlgorithms: []string{k.host.Type()}}
	if k.host.Type() == ssh.KeyAlgoRSA {
		config.HostKeyAlgorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	config.HostKeyCallback = func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if !bytes.Equal(key.Marshal(), k.host.Marshal()) {
			return errHostKey
		}
		return nil
	}
	return config, nil
}
