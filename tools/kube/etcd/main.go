// Command etcd is the etcd server, with the same main function, in the version that Kubernetes is
// tested with.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
