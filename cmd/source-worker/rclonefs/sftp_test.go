package rclonefs

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	pkgsftp "github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/sourcetest"
)

// sftpServer serves the files of this machine to one user over SFTP. It returns its address and its
// public key.
func sftpServer(t testing.TB) (net.Addr, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if c.User() != "reader" || string(password) != "secret" {
			return nil, errors.New("no such user")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serveSSH(conn, config) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return listener.Addr(), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

// serveSSH serves a connection until the client closes it.
func serveSSH(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		channel, requests, err := asked.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				_ = r.Reply(r.Type == "subsystem", nil)
			}
		}()
		server, err := pkgsftp.NewServer(channel, pkgsftp.ReadOnly())
		if err != nil {
			return
		}
		go func() {
			if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
				_ = server.Close()
			}
			_ = channel.Close()
		}()
	}
}

func TestSFTP(t *testing.T) {
	address, key := sftpServer(t)
	sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture {
		dir := t.TempDir()
		wire := sourcetest.NewTCPProxy(t, address.String())
		host, port := wire.Address()
		fixture := sourcetest.Fixture{
			Driver: paged(sftp, testPage).driver(), TCPProxy: wire,
			Settings: source.Settings{AllowPrivate: true, Values: map[string]string{"host": host, "port": port, "host_key": key,
				"user": "reader", "password": "secret", "path": dir}},
			WrongCredentials: func(v map[string]string) { v["password"] = "wrong" },
		}
		folder(&fixture, dir)
		return fixture
	})
}

func TestSFTPRefusesAnotherHostKey(t *testing.T) {
	address, _ := sftpServer(t)
	_, other := sftpServer(t)
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = sftp.driver().Open(t.Context(), source.Settings{AllowPrivate: true, Values: map[string]string{"host": host, "port": port,
		"host_key": other, "user": "reader", "password": "secret"}})
	var field *source.FieldError
	if !errors.As(err, &field) || field.Field != "host_key" {
		t.Errorf("a server with another key gives %v", err)
	}
}
