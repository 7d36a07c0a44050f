package durable

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TaskQueues returns the backlogs of the task queues in a namespace ("default" when empty), and the
// workers that polled them within the last minutes.
func TaskQueues(ctx context.Context, c client.Client, namespace string) ([]schema.TaskQueue, error) {
	if namespace == "" {
		namespace = client.DefaultNamespace
	}
	out := []schema.TaskQueue{}
	for _, name := range []string{wire.TaskQueueIngest, wire.TaskQueueCurate, wire.TaskQueueVectors, wire.TaskQueueReparse, wire.TaskQueueQuestions, wire.TaskQueueChoices, wire.TaskQueueSources} {
		for kind, of := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
			d, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
				Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: name}, TaskQueueType: of, ReportStats: true,
			})
			if err != nil {
				return out, fmt.Errorf("look into task queue %s of temporal: %w", name, err)
			}
			stats := d.GetStats()
			q := schema.TaskQueue{Name: name, Kind: [...]string{"workflow", "activity"}[kind], Backlog: stats.GetApproximateBacklogCount(),
				Age: stats.GetApproximateBacklogAge().AsDuration().Seconds(), Added: float64(stats.GetTasksAddRate()), Taken: float64(stats.GetTasksDispatchRate()),
				Workers: []schema.Poller{}}
			for _, p := range d.GetPollers() {
				q.Workers = append(q.Workers, schema.Poller{Name: p.GetIdentity(), Seen: p.GetLastAccessTime().AsTime()})
			}
			out = append(out, q)
		}
	}
	return out, nil
}
