// Package client replaces the client of go.temporal.io/auto-scaled-workers, which starts workers in
// clouds and for that links the clients of Amazon, Google and Kubernetes, a third of a Temporal
// server's compile time. A server for one machine starts no workers: no instance exists, and none
// can be created.
package client

import (
	"context"

	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/namespace"
	"go.uber.org/fx"
)

// Client has the methods that the server calls.
type Client interface {
	DescribeWorkerControllerInstance(ctx context.Context, namespaceEntry *namespace.Namespace, version *deploymentpb.WorkerDeploymentVersion) (
		*iface.QueryDescribeWorkerControllerInstanceResponse, []byte, error)
	UpdateWorkerControllerInstance(ctx context.Context, namespaceEntry *namespace.Namespace, version *deploymentpb.WorkerDeploymentVersion,
		conflictToken []byte, identity string, upsertScalingGroups map[string]iface.ScalingGroupSpecUpdate, removeScalingGroups []string) (
		*iface.UpdateWorkerControllerInstanceResponse, error)
	ValidateWorkerControllerInstanceSpec(ctx context.Context, namespaceEntry *namespace.Namespace, version *deploymentpb.WorkerDeploymentVersion,
		identity string, upsertScalingGroups map[string]iface.ScalingGroupSpecUpdate, removeScalingGroups []string) error
	DeleteWorkerControllerInstance(ctx context.Context, namespaceEntry *namespace.Namespace, version *deploymentpb.WorkerDeploymentVersion,
		identity string) error
}

// Module provides the Client.
var Module = fx.Provide(func() Client { return none{} })

type none struct{}

const absent = "this Temporal server is built without auto-scaled workers"

func (none) DescribeWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion) (
	*iface.QueryDescribeWorkerControllerInstanceResponse, []byte, error) {
	return nil, nil, serviceerror.NewNotFound(absent)
}

func (none) UpdateWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, []byte, string,
	map[string]iface.ScalingGroupSpecUpdate, []string) (*iface.UpdateWorkerControllerInstanceResponse, error) {
	return nil, serviceerror.NewUnimplemented(absent)
}

func (none) ValidateWorkerControllerInstanceSpec(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string,
	map[string]iface.ScalingGroupSpecUpdate, []string) error {
	return serviceerror.NewUnimplemented(absent)
}

func (none) DeleteWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string) error {
	return nil
}
