// Package iface has the types of go.temporal.io/auto-scaled-workers that the Temporal server uses.
// Their fields and JSON are the same.
package iface

import (
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
)

// ComputeProviderType names where workers run.
type ComputeProviderType string

// ComputeProviderSpec says where workers run.
type ComputeProviderSpec struct {
	ProviderType  ComputeProviderType `json:"provider_type,omitempty"`
	Config        *commonpb.Payload   `json:"config,omitempty"`
	NexusEndpoint string              `json:"nexus_endpoint,omitempty"`
}

// ScalingAlgorithmType names how the number of workers is computed.
type ScalingAlgorithmType string

// ScalingAlgorithmSpec says how the number of workers is computed.
type ScalingAlgorithmSpec struct {
	ScalingAlgorithm ScalingAlgorithmType `json:"scaling_algorithm,omitempty"`
	Config           *commonpb.Payload    `json:"config,omitempty"`
}

// ScalingGroupSpec has both for some types of tasks.
type ScalingGroupSpec struct {
	TaskTypes []enumspb.TaskQueueType `json:"task_types"`
	Compute   ComputeProviderSpec     `json:"compute"`
	Scaling   *ScalingAlgorithmSpec   `json:"scaling,omitempty"`
}

// ScalingGroupSpecUpdate changes fields of a group.
type ScalingGroupSpecUpdate struct {
	Spec       ScalingGroupSpec `json:"spec"`
	UpdateMask []string         `json:"update_mask"`
}

// WorkerControllerInstanceSpec has groups by name.
type WorkerControllerInstanceSpec struct {
	ScalingGroupSpecs map[string]ScalingGroupSpec `json:"scaling_group_specs"`
}

// ValidationResult is the outcome of a check.
type ValidationResult string

// ValidationResultFailed is a check that failed.
const ValidationResultFailed ValidationResult = "failed"

// ValidationStatus is the last check of a spec.
type ValidationStatus struct {
	LastValidationTime time.Time        `json:"last_validation_time"`
	Status             ValidationResult `json:"status"`
	ErrMessage         string           `json:"err_message,omitempty"`
}

// QueryDescribeWorkerControllerInstanceResponse describes an instance.
type QueryDescribeWorkerControllerInstanceResponse struct {
	Spec             *WorkerControllerInstanceSpec `json:"spec,omitempty"`
	ValidationStatus *ValidationStatus             `json:"validation_state,omitempty"`
}

// UpdateWorkerControllerInstanceResponse has the spec after an update.
type UpdateWorkerControllerInstanceResponse struct {
	Spec *WorkerControllerInstanceSpec `json:"spec,omitempty"`
}
