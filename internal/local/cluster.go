// This file creates a PostgreSQL cluster, with its directory and passwords. The cluster appears
// atomically, complete or not at all.

package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// prepareCluster creates the cluster unless it exists, and returns the installation that can run
// it.
func (p *Postgres) prepareCluster(ctx context.Context, user *account) (PostgresInstallation, error) {
	exists, err := exists(p.cluster())
	if err != nil {
		return PostgresInstallation{}, err
	}
	if err := p.loadPasswords(exists); err != nil {
		return PostgresInstallation{}, err
	}
	major := 0
	if exists {
		text, err := os.ReadFile(filepath.Join(p.cluster(), "PG_VERSION"))
		if err != nil {
			return PostgresInstallation{}, fmt.Errorf("reading the cluster's version: %w", err)
		}
		if major, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return PostgresInstallation{}, fmt.Errorf("reading the cluster's version: %w", err)
		}
	}
	install, err := FindPostgres(ctx, major)
	if err != nil || exists {
		return install, err
	}
	if err := p.createCluster(ctx, install, user); err != nil {
		return install, fmt.Errorf("creating the cluster in %s: %w", p.cluster(), err)
	}
	return install, nil
}

func (p *Postgres) createCluster(ctx context.Context, install PostgresInstallation, user *account) error {
	fresh := p.cluster() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := user.own(fresh); err != nil {
		return err
	}
	if p.opts.StandbyOf != nil {
		if err := p.copyCluster(ctx, install, user, fresh); err != nil {
			return err
		}
		return os.Rename(fresh, p.cluster())
	}
	// initdb runs as the server's user, who must not read our own copy of the password.
	pwfile := filepath.Join(p.opts.Dir, "initdb.password")
	if err := writeSecret(pwfile, p.passwords[superuser]); err != nil {
		return err
	}
	defer func() { _ = os.Remove(pwfile) }()
	if err := user.own(pwfile); err != nil {
		return err
	}

	ctype := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		ctype = "UTF-8"
	}
	args := []string{
		"--pgdata=" + fresh, "--username=" + superuser, "--pwfile=" + pwfile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--lc-collate=C", "--lc-ctype=" + ctype, "--lc-messages=C", "--lc-monetary=C", "--lc-numeric=C", "--lc-time=C",
		"--text-search-config=simple", "--no-instructions",
	}
	if p.opts.Throwaway {
		args = append(args, "--no-sync")
	}
	if err := runAs(ctx, user, filepath.Join(install.Bin, "initdb"), args...); err != nil {
		return err
	}
	return os.Rename(fresh, p.cluster())
}

// copyCluster copies the cluster of the server that this one follows, and writes the recovery
// configuration.
func (p *Postgres) copyCluster(ctx context.Context, install PostgresInstallation, user *account, into string) error {
	args := []string{"--pgdata=" + into, "--dbname=" + p.opts.StandbyOf.AdminURL(superuser), "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"}
	if p.opts.Throwaway {
		args = append(args, "--no-sync")
	}
	return runAs(ctx, user, filepath.Join(install.Bin, "pg_basebackup"), args...)
}

// runAs runs one of PostgreSQL's programs as the server's user.
func runAs(ctx context.Context, user *account, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if user != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user.uid, Gid: user.gid}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), errors.Join(err, context.Cause(ctx)), strings.TrimSpace(string(out)))
	}
	return nil
}

// loadPasswords reads the passwords of the roles from their files, or makes them for a new cluster.
func (p *Postgres) loadPasswords(clusterExists bool) error {
	passwords := map[string]string{}
	if of := p.opts.StandbyOf; of != nil {
		of.mu.Lock()
		passwords = maps.Clone(of.passwords)
		of.mu.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.passwords = passwords
		return nil
	}
	for _, role := range []string{superuser, Owner, Program, Vectors} {
		path := filepath.Join(p.opts.Dir, role+".password")
		text, err := os.ReadFile(path)
		switch {
		case err == nil && len(text) > 0:
			passwords[role] = strings.TrimSpace(string(text))
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("reading the password of %s: %w", role, err)
		case clusterExists && (role == superuser || role == Owner): // older clusters lack others
			return fmt.Errorf("the password of role %s is lost: %s is missing or empty", role, path)
		default:
			passwords[role] = newSecret()
			if err := writeSecret(path, passwords[role]); err != nil {
				return fmt.Errorf("keeping the password of %s: %w", role, err)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passwords = passwords
	return nil
}

// newSecret returns 128 random bits in hexadecimal.
func newSecret() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// writeSecret atomically writes a file that only its owner can read.
func writeSecret(path, secret string) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(fresh, []byte(secret+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// exists reports whether path exists.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
