package bus

// The configuration of a NATS server that allows each program exactly what it needs, and the
// matching credentials.

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ServerConfig holds the settings that differ between servers.
type ServerConfig struct {
	Store     string // where JetStream keeps its files
	MaxMemory string // limit of JetStream's memory, such as 256MB
	MaxFile   string
	// Cert, Key and CA make the server require TLS and client certificates that CA signed; all
	// empty: neither. They are paths on the server's machine.
	Cert, Key, CA string
	// Monitor is the host:port of /healthz, /varz and /jsz; 127.0.0.1:8222 when empty.
	Monitor string
	// Routes are the servers of a cluster, as host:port, including this one; none: a single server.
	// Each server reads its name, which must be unique, from its environment (ServerNameVariable).
	// Servers authenticate each other by a password that Write makes once, and by certificates that
	// CA signed if there are any.
	Routes []string
}

// ServerNameVariable is the environment variable with the name of a server of a cluster.
const ServerNameVariable = "NATS_SERVER_NAME"

// Names of the files that Write makes. Files of credentials are named after their programs.
const (
	ServerConfigFile = "nats.conf"
	seedSuffix       = ".nk"
	routePassword    = "cluster.password"
)

const routeUser = "route"

// CredentialsFile returns the name of the file with a program's credentials.
func CredentialsFile(p wire.Program) string { return string(p) + seedSuffix }

// Write writes the configuration and a file of credentials for each program into dir, which it
// creates closed to other users. Existing credentials are kept, so that a new configuration needs
// no change of programs.
func (c ServerConfig) Write(dir string) error {
	if (c.Cert == "") != (c.Key == "") || (c.CA == "") != (c.Cert == "") {
		return schema.Invalid("tls", "needs certificate, key and authority, all three")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of credentials: %w", err)
	}
	for _, route := range c.Routes {
		if host, port, err := net.SplitHostPort(route); err != nil || host == "" || port == "" {
			return schema.Invalid("route", "%q is not host:port", route)
		}
	}
	if c.Monitor != "" {
		if _, _, err := net.SplitHostPort(c.Monitor); err != nil {
			return schema.Invalid("monitor", "%q is not host:port", c.Monitor)
		}
	}
	password := ""
	if len(c.Routes) > 0 {
		var err error
		if password, err = keepPassword(filepath.Join(dir, routePassword)); err != nil {
			return fmt.Errorf("password of the cluster: %w", err)
		}
	}
	users := map[wire.Program]string{}
	for _, p := range wire.Programs() {
		public, err := keepSeed(filepath.Join(dir, CredentialsFile(p)))
		if err != nil {
			return fmt.Errorf("credentials of %s: %w", p, err)
		}
		users[p] = public
	}
	if err := os.WriteFile(filepath.Join(dir, ServerConfigFile), c.text(users, password), 0o644); err != nil {
		return fmt.Errorf("write the server's configuration: %w", err)
	}
	return nil
}

// keepSeed returns the public key of the seed in a file, and makes the file if it does not exist.
// The file is readable for all, because a container that gets the file alone may run as another
// user; the folder keeps others out.
func keepSeed(file string) (public string, err error) {
	seed, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if seed, err = NewSeed(); err == nil {
			err = os.WriteFile(file, append(seed, '\n'), 0o644)
		}
	}
	if err != nil {
		return "", err
	}
	pair, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return pair.PublicKey()
}

// keepPassword returns the password in a file, and makes the file if it does not exist.
func keepPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(rand.Text())
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(text))
	if password == "" || url.PathEscape(password) != password {
		return "", fmt.Errorf("%s: it is to be of letters and digits", file)
	}
	return password, nil
}

// NewSeed returns the seed of a new user NKey.
func NewSeed() ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("make an NKey: %w", err)
	}
	return pair.Seed()
}

func (c ServerConfig) text(users map[wire.Program]string, password string) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Written by `sluice nats-config`. Each program has a user of its own, who may publish and subscribe to")
	line("# exactly what the program needs. The keys here are public; the files beside this one are secret.")
	if len(c.Routes) > 0 {
		line("# The password of the cluster's routes is secret, too, and so is this file.")
	}
	line("")
	line("port: 4222")
	if len(c.Routes) > 0 {
		line("server_name: $%s", ServerNameVariable)
	}
	line("http: %q", cmp.Or(c.Monitor, "127.0.0.1:8222"))
	line("ping_interval: \"10s\" # a client that is gone without a word gets no requests after half a minute")
	line("ping_max: 2")
	line("")
	line("jetstream {")
	line("  store_dir: %s", strconv.Quote(c.Store))
	for _, limit := range [][2]string{{"max_memory_store", c.MaxMemory}, {"max_file_store", c.MaxFile}} {
		if limit[1] != "" {
			line("  %s: %s", limit[0], limit[1])
		}
	}
	line("}")
	encrypted := func(indent string) {
		if c.Cert != "" {
			line("%stls {", indent)
			line("%[1]s  cert_file: %[2]q\n%[1]s  key_file: %[3]q\n%[1]s  ca_file: %[4]q\n%[1]s  verify: true", indent, c.Cert, c.Key, c.CA)
			line("%s}", indent)
		}
	}
	if c.Cert != "" {
		line("")
		encrypted("")
	}
	if len(c.Routes) > 0 {
		line("")
		line("cluster {")
		line("  name: sluice")
		line("  port: 6222")
		line("  no_advertise: true # clients have an address that leads to all of them")
		line("  authorization { user: %q, password: %q }", routeUser, password)
		encrypted("  ")
		line("  routes: [")
		for _, route := range c.Routes {
			line("    %q", "nats-route://"+routeUser+":"+password+"@"+route)
		}
		line("  ]\n}")
	}
	line("")
	line("authorization {")
	line("  users: [")
	list := func(subjects []string) string { return `["` + strings.Join(subjects, `", "`) + `"]` }
	for _, p := range wire.Programs() {
		a := wire.AccessOf(p)
		line("    { # %s\n      nkey: %s\n      permissions: {", p, users[p])
		line("        publish: { allow: %s }\n        subscribe: { allow: %s }\n      }\n    }", list(a.Publish), list(a.Subscribe))
	}
	line("  ]\n}")
	return b.Bytes()
}
