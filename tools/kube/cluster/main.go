// Command cluster runs a Kubernetes of two nodes on this machine as plain processes: on each node a
// container runtime, the kubelet, kube-proxy, kube-router for network policies and CoreDNS, and on
// the first also etcd, the API server, the controllers and the scheduler. Each node has process
// numbers, mounts and a network of its own, which end with the command, however it ends, and with
// them every container. The machine reaches pods and Services by a route.
//
// Usage: cluster PROGRAMS DIRECTORY   (as root; PROGRAMS is what tools/setup kube made)
//
// It prints the path of a kubeconfig once the nodes are ready, and runs until a signal or the end
// of its standard input.
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

// inside is the first argument of the process that has its own namespaces.
const inside = "inside"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) == 5 && os.Args[1] == inside {
		return runNode(os.Args[2], os.Args[3], os.Args[4])
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

// supervise starts the nodes one after another, and cleans up when one has ended.
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
	if err := makeGroups(); err != nil {
		return err
	}
	left := make(chan struct{})
	go func() { // it ends with the process, because a read of standard input cannot be interrupted
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(left)
	}()

	// The kernel kills a node when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ended := make(chan error, len(places))
	first := 0
	for _, p := range places {
		n, err := startProcess(p, programs, dir, ended)
		if err != nil {
			return err
		}
		defer n.kill()
		if first == 0 {
			first = n.process.Process.Pid
		}
		if err := p.connect(first, n.process.Process.Pid); err != nil {
			return err
		}
		if _, err := io.WriteString(n.begin, "begin\n"); err != nil {
			return fmt.Errorf("telling %s to begin: %w", p.Name, err)
		}
		select {
		case <-n.ready:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		case <-left:
			return nil
		}
	}
	fmt.Println(filepath.Join(dir, "admin.kubeconfig"))
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	case <-left:
		return nil
	}
}

// nodeProcess is the first process of a node's namespaces.
type nodeProcess struct {
	process *exec.Cmd
	begin   io.Writer
	ready   chan struct{} // closed when the node says that it is ready
	gone    chan struct{} // closed when the node has ended
}

// startProcess starts a node, which waits for its network. When the node ends, the error is sent to
// ended.
func startProcess(p place, programs, dir string, ended chan<- error) (*nodeProcess, error) {
	n := &nodeProcess{process: exec.Command("/proc/self/exe", inside, programs, dir, p.Name), ready: make(chan struct{}), gone: make(chan struct{})}
	n.process.Stderr = os.Stderr
	n.process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	begin, err := n.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	n.begin = begin
	says, err := n.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.process.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	go func() {
		if _, err := bufio.NewReader(says).ReadString('\n'); err == nil {
			close(n.ready)
		}
		err := n.process.Wait()
		ended <- fmt.Errorf("%s ended: %w; logs are in %s", p.Name, err, filepath.Join(dir, p.Name, "log"))
		close(n.gone)
	}()
	return n, nil
}

// kill kills a node, and with it every process in its PID namespace.
func (n *nodeProcess) kill() {
	_ = n.process.Process.Kill()
	<-n.gone
}

// command runs a program. If it fails, the error has its output.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
