package main

// This file is the first process in a node's namespaces. It starts the others, and ends when one of
// them ends.

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience is how long one program may take until it answers.
const patience = 5 * time.Minute

// node is a node that is being started.
type node struct {
	place
	programs, cluster string
	dir               string // the node's own directory
	ended             chan error
}

func runNode(programs, cluster, name string) error {
	p, err := placeOf(name)
	if err != nil {
		return err
	}
	// Wait until the network link to the machine exists.
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting for the network: %w", err)
	}
	n := &node{place: p, programs: programs, cluster: cluster, dir: filepath.Join(cluster, name), ended: make(chan error, 16)}
	if err := n.mount(); err != nil {
		return err
	}
	if err := n.network(); err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return err
	}
	fmt.Println("ready")
	return <-n.ended
}

// mount hides the node's mounts for pods from the machine, and the machine's mounts at the same
// paths from the node.
func (n *node) mount() error {
	for _, dir := range []string{"/run/containerd", "/run/netns", "/var/lib/kubelet", "/var/log/containers"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, args := range []string{
		"--make-rslave /",
		"--make-rshared /",
		"-t proc proc /proc",
		"-t tmpfs tmpfs /run/containerd",
		"-t tmpfs tmpfs /run/netns",
		"-t tmpfs tmpfs /var/log/containers",
		"--bind " + filepath.Join(n.dir, "kubelet") + " /var/lib/kubelet",
		"--make-shared /var/lib/kubelet",
		"--make-shared /run/netns",
	} {
		if err := command("mount", strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) network() error {
	for _, args := range []string{
		"link set lo up",
		"address add " + dnsAddress + "/32 dev lo",
		"address add " + n.Address + "/30 dev node",
		"link set node up",
		"route add default via " + n.Gateway,
	} {
		if err := command("ip", strings.Fields(args)...); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// step is a program, and a check that succeeds when it answers.
type step struct {
	program string
	args    []string
	answers func() error
}

// start starts the programs one after another, each when those that it needs answer.
func (n *node) start() error {
	if n.first() {
		steps, err := n.controllers()
		if err != nil {
			return err
		}
		if err := n.steps(steps); err != nil {
			return err
		}
		if err := n.until("kubectl", n.kubectl("apply", "-f", filepath.Join(n.cluster, "rights.yaml"), "-f", filepath.Join(n.cluster, "volumes.yaml"))); err != nil {
			return err
		}
	}
	return n.steps(n.workers())
}

func (n *node) steps(steps []step) error {
	for _, step := range steps {
		if err := n.program(step.program, step.args...); err != nil {
			return err
		}
		if step.answers != nil {
			if err := n.until(step.program, step.answers); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *node) kubectl(args ...string) func() error {
	return func() error {
		return command(filepath.Join(n.programs, "kubectl"),
			append([]string{"--kubeconfig", filepath.Join(n.cluster, "admin.kubeconfig"), "--request-timeout", "10s"}, args...)...)
	}
}

// controllers returns the programs that run once per cluster.
func (n *node) controllers() ([]step, error) {
	file := func(name string) string { return filepath.Join(n.cluster, name) }
	pki := func(name string) string { return filepath.Join(n.cluster, "pki", name) }
	client, err := n.client()
	if err != nil {
		return nil, err
	}
	return []step{
		{"etcd", []string{"--data-dir", file("etcd"), "--unsafe-no-fsync", "--log-level", "warn"}, get(http.DefaultClient, "http://127.0.0.1:2379/health")},
		{"kube-apiserver", []string{
			"--etcd-servers=http://127.0.0.1:2379", "--advertise-address=" + n.Address, "--service-cluster-ip-range=" + serviceRange,
			"--tls-cert-file=" + pki("api-server.crt"), "--tls-private-key-file=" + pki("api-server.key"), "--client-ca-file=" + pki("ca.crt"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file=" + pki("service-account.key"),
			"--service-account-key-file=" + pki("service-account.key"),
			"--kubelet-client-certificate=" + pki("api-server-client.crt"), "--kubelet-client-key=" + pki("api-server-client.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--requestheader-client-ca-file=" + pki("ca.crt"), "--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + pki("front-proxy.crt"), "--proxy-client-key-file=" + pki("front-proxy.key"),
		}, get(client, "https://"+n.Address+":6443/readyz")},
		{"kube-controller-manager", []string{
			"--kubeconfig=" + file("controller-manager.kubeconfig"), "--authentication-kubeconfig=" + file("controller-manager.kubeconfig"),
			"--authorization-kubeconfig=" + file("controller-manager.kubeconfig"), "--use-service-account-credentials", "--leader-elect=false",
			"--service-account-private-key-file=" + pki("service-account.key"), "--root-ca-file=" + pki("ca.crt"), "--horizontal-pod-autoscaler-sync-period=5s",
		}, nil},
		{"kube-scheduler", []string{"--kubeconfig=" + file("scheduler.kubeconfig"), "--authentication-kubeconfig=" + file("scheduler.kubeconfig"),
			"--authorization-kubeconfig=" + file("scheduler.kubeconfig"), "--leader-elect=false"}, nil},
	}, nil
}

// workers returns the programs that run on each node.
func (n *node) workers() []step {
	file := func(name string) string { return filepath.Join(n.dir, name) }
	return []step{
		{"containerd", []string{"--config", file("containerd.toml")}, socket(file("containerd.sock"))},
		{"coredns", []string{"-conf", file("Corefile")}, nil},
		{"kubelet", []string{"--config=" + file("kubelet.yaml"), "--kubeconfig=" + filepath.Join(n.cluster, n.Name+".kubeconfig"), "--hostname-override=" + n.Name,
			"--node-ip=" + n.Address, "--cert-dir=" + file("kubelet/pki")}, n.kubectl("wait", "--for=condition=Ready", "node/"+n.Name, "--timeout=1s")},
		// These two request their node when they start. kube-router only enforces network policies.
		{"kube-proxy", []string{"--config=" + file("kube-proxy.yaml")}, get(http.DefaultClient, "http://127.0.0.1:10256/livez")},
		{"kube-router", []string{"--kubeconfig=" + filepath.Join(n.cluster, "policies.kubeconfig"), "--hostname-override=" + n.Name, "--run-firewall=true",
			"--run-router=false", "--run-service-proxy=false", "--service-cluster-ip-range=" + serviceRange}, get(http.DefaultClient, "http://127.0.0.1:20244/healthz")},
	}
}

// program starts a program, whose output goes to its own log. When the program ends, the node ends.
func (n *node) program(name string, args ...string) error {
	log, err := os.Create(filepath.Join(n.dir, "log", name+".log"))
	if err != nil {
		return err
	}
	path := filepath.Join(n.programs, name)
	if _, err := os.Stat(path); err != nil {
		path = name
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, n.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		err := cmd.Wait()
		n.ended <- fmt.Errorf("%s ended, its log is %s: %v", name, log.Name(), err)
	}()
	return nil
}

// until repeats a check until the program answers.
func (n *node) until(name string, answers func() error) error {
	end := time.Now().Add(patience)
	for {
		err := answers()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not answer: %w", name, err)
		}
		select {
		case err := <-n.ended:
			return err
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// client returns an HTTP client for the API server.
func (n *node) client() (*http.Client, error) {
	authority, err := os.ReadFile(filepath.Join(n.cluster, "pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	own, err := tls.LoadX509KeyPair(filepath.Join(n.cluster, "pki", "admin.crt"), filepath.Join(n.cluster, "pki", "admin.key"))
	if err != nil {
		return nil, err
	}
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}}}}, nil
}

func get(client *http.Client, url string) func() error {
	return func() error {
		response, err := client.Get(url)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}

func socket(path string) func() error {
	return func() error {
		_, err := os.Stat(path)
		return err
	}
}
