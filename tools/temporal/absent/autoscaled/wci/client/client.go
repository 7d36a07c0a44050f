// Package client stands in for the client of go.temporal.io/auto-scaled-workers, which starts
// workers in the clouds and links the clients of Amazon's, Google's and Kubernetes' interfaces for
// that: a third of what a Temporal server takes to compile. A server for one machine starts no
// workers: there is no such instance, and none can be made.
package client

import (
	"context"

	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/namespace"
	"go.uber.org/fx"
)

// Client is what the server calls of the original.
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
