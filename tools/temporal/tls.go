// This file has every port ask for a certificate: not the frontend's alone, for who reaches another
// one gets at the same workflows.

package main

import "go.temporal.io/server/common/config"

// certificate names the server's own, which it shows as server and as client of itself.
type certificate struct {
	authority, cert, key string // files
	name                 string
}

// set counts what is set.
func (c certificate) set() (n int) {
	for _, s := range []string{c.authority, c.cert, c.key, c.name} {
		if s != "" {
			n++
		}
	}
	return n
}

func (c certificate) settings() config.RootTLS {
	if c.set() == 0 {
		return config.RootTLS{}
	}
	client := config.ClientTLS{ServerName: c.name, RootCAFiles: []string{c.authority}}
	group := config.GroupTLS{
		Server: config.ServerTLS{CertFile: c.cert, KeyFile: c.key, ClientCAFiles: []string{c.authority}, RequireClientAuth: true},
		Client: client,
	}
	return config.RootTLS{
		Internode: group, Frontend: group,
		SystemWorker: config.WorkerTLS{CertFile: c.cert, KeyFile: c.key, Client: client},
	}
}
