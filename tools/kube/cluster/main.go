// Command cluster runs a Kubernetes of one node as plain processes: etcd, the API server, the controllers, the scheduler,
// a container runtime, the kubelet, kube-proxy and CoreDNS. They have process numbers, mounts and a network of their own,
// which end with the command, however it ends, and with them every container. The machine reaches pods and Services by
// a route.
//
// Usage: cluster PROGRAMS DIRECTORY   (as root; PROGRAMS is what tools/setup kube made)
//
// It prints the path of a kubeconfig once the node is ready, and runs until a signal or the end of its standard input.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Addresses that are the cluster's alone.
const (
	machineAddress = "172.28.0.1"
	nodeAddress    = "172.28.0.2"
	everything     = "172.28.0.0/16"
	podRange       = "172.28.64.0/20"
	serviceRange   = "172.28.128.0/20"
	firstService   = "172.28.128.1" // of the API server
	nodeName       = "sluice-node"
	link           = "sluice-kube" // the machine's end of the link to the node
)

// inside is the first argument of the process that has namespaces of its own.
const inside = "inside"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) == 4 && os.Args[1] == inside {
		return runNode(os.Args[2], os.Args[3])
	}
	if len(os.Args) != 3 {
		return errors.New("usage: cluster PROGRAMS DIRECTORY")
	}
	if os.Geteuid() != 0 {
		return errors.New("it has to be started as root")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	programs, err := filepath.Abs(os.Args[1])
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(os.Args[2])
	if err != nil {
		return err
	}
	return supervise(ctx, programs, dir)
}

// supervise starts the node, and removes what is left of it when it ended.
func supervise(ctx context.Context, programs, dir string) (err error) {
	if err := cleanUp(dir); err != nil {
		return err
	}
	kept := readKernelSettings()
	defer func() { err = errors.Join(err, writeKernelSettings(kept), cleanUp(dir)) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c, err := makeCertificates(filepath.Join(dir, "pki"))
	if err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if err := writeConfiguration(dir, c); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}

	// The kernel kills the node when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	node := exec.Command("/proc/self/exe", inside, programs, dir)
	node.Stderr = os.Stderr
	node.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	begin, err := node.StdinPipe()
	if err != nil {
		return err
	}
	says, err := node.StdoutPipe()
	if err != nil {
		return err
	}
	if err := node.Start(); err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	ended := make(chan error, 1)
	defer func() {
		_ = node.Process.Kill() // and with it every process of its namespace
		<-ended
	}()
	ready := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(says).ReadString('\n')
		ready <- err
		ended <- node.Wait()
		close(ended)
	}()
	if err := connect(node.Process.Pid); err != nil {
		return err
	}
	if _, err := io.WriteString(begin, "begin\n"); err != nil {
		return fmt.Errorf("telling the node to begin: %w", err)
	}
	left := make(chan struct{})
	go func() { // it ends with the process: nothing else ends a read of standard input
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(left)
	}()
	for {
		select {
		case err := <-ready:
			if err != nil {
				return fmt.Errorf("the node did not become ready; logs are in %s", filepath.Join(dir, "log"))
			}
			fmt.Println(filepath.Join(dir, "admin.kubeconfig"))
			ready = nil
		case err := <-ended:
			return fmt.Errorf("the node ended: %w; logs are in %s", err, filepath.Join(dir, "log"))
		case <-ctx.Done():
			return nil
		case <-left:
			return nil
		}
	}
}

// connect links the node's network to the machine's.
func connect(pid int) error {
	for _, args := range []string{
		fmt.Sprintf("link add %s type veth peer name node netns %d", link, pid),
		fmt.Sprintf("address add %s/30 dev %s", machineAddress, link),
		fmt.Sprintf("link set %s up", link),
		fmt.Sprintf("route add %s via %s", everything, nodeAddress),
	} {
		if err := command("ip", strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program, and says what it printed when it fails.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
