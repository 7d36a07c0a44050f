package main

// This file has the nodes' addresses, and links the nodes with each other and with the machine.

import (
	"fmt"
	"strings"
)

// Addresses that only the cluster uses.
const (
	machineAddress = "172.28.0.1"
	everything     = "172.28.0.0/16"
	podRange       = "172.28.64.0/20" // for both nodes
	serviceRange   = "172.28.128.0/20"
	firstService   = "172.28.128.1"  // of the API server
	dnsAddress     = "169.254.20.10" // on each node, at the usual address of a node's DNS cache
	link           = "sluice-kube"   // the machine's end of the link to the first node
	between        = "next"          // the first node's end of the link to the second
	betweenAddress = "172.28.0.5"    // and its address
)

// place is a node's name and addresses.
type place struct {
	Name, Address, Gateway, Pods string
}

var places = []place{
	{Name: "sluice-node-a", Address: "172.28.0.2", Gateway: machineAddress, Pods: "172.28.64.0/21"},
	{Name: "sluice-node-b", Address: "172.28.0.6", Gateway: betweenAddress, Pods: "172.28.72.0/21"},
}

// first reports whether this is the node with the programs that run once per cluster.
func (p place) first() bool { return p.Name == places[0].Name }

func placeOf(name string) (place, error) {
	for _, p := range places {
		if p.Name == name {
			return p, nil
		}
	}
	return place{}, fmt.Errorf("there is no node %s", name)
}

// connect links the network of a node, whose process is pid, to the machine's network or, for the
// second node, to the first node's, through which the machine reaches it.
func (p place) connect(first, pid int) error {
	commands := []string{
		fmt.Sprintf("ip link add %s type veth peer name node netns %d", link, pid),
		fmt.Sprintf("ip address add %s/30 dev %s", machineAddress, link),
		fmt.Sprintf("ip link set %s up", link),
		fmt.Sprintf("ip route add %s via %s", everything, p.Address),
	}
	if !p.first() {
		there := fmt.Sprintf("nsenter --net=/proc/%d/ns/net ", first)
		commands = []string{
			there + fmt.Sprintf("ip link add %s type veth peer name node netns %d", between, pid),
			there + fmt.Sprintf("ip address add %s/30 dev %s", betweenAddress, between),
			there + fmt.Sprintf("ip link set %s up", between),
			there + fmt.Sprintf("ip route add %s via %s", p.Pods, p.Address),
		}
	}
	for _, line := range commands {
		args := strings.Fields(line)
		if err := command(args[0], args[1:]...); err != nil {
			return err
		}
	}
	return nil
}
