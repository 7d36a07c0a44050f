// This file makes every port require a client certificate, not only the frontend's, because all
// ports give access to the same workflows.

package main

import "go.temporal.io/server/common/config"

// certificate has the files of the server's certificate, which it uses as a server and as a client
// of itself.
type certificate struct {
	authority, cert, key string // paths of files
	name                 string
}

// set returns the number of fields that are set.
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
