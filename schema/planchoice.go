package schema

// PlanStanding is what a choice of plans says of one of them.
type PlanStanding string

// What is said of plans.
const (
	PlanChosen  PlanStanding = "chosen"  // the one that is proposed
	PlanAsGood  PlanStanding = "as-good" // for sure within the margin too, and costs more
	PlanBest    PlanStanding = "best"    // of the highest quality, and costs more
	PlanNear    PlanStanding = "near"    // within the margin by mean, and costs more
	PlanWorse   PlanStanding = "worse"   // loses more than the margin, by mean or possibly
	PlanDropped PlanStanding = "dropped" // clearly worse after the first questions, and asked no more
)

// PlanVerdict is what was measured of one plan, and what a choice says of it.
type PlanVerdict struct {
	Plan         string       `json:"plan"`
	Questions    int          `json:"questions" doc:"That it was asked."`
	Quality      float64      `json:"quality" doc:"Mean over the questions, from 0 to 1."`
	Interval     Interval     `json:"interval" doc:"95 % interval of the quality."`
	Loss         float64      `json:"loss" doc:"Mean quality that it loses against the best plan, on the questions of both."`
	LossInterval Interval     `json:"loss_interval" doc:"95 % interval of the loss."`
	LossBound    *float64     `json:"loss_bound,omitempty" doc:"What it loses at most against any plan: the bound by which plans are chosen. Absent for a dropped plan."`
	Tokens       float64      `json:"tokens" doc:"Mean per question."`
	Dollars      *float64     `json:"dollars,omitempty" doc:"Mean per question, where prices are known."`
	Millis       float64      `json:"ms" doc:"Mean per question."`
	Current      bool         `json:"current,omitempty" doc:"It is the collection's plan."`
	Verdict      PlanStanding `json:"verdict" enum:"chosen,as-good,best,near,worse,dropped"`
}

// PlanVerdicts are the result of a choice of plans.
type PlanVerdicts struct {
	Plan      string        `json:"plan" doc:"The one that is proposed."`
	Best      string        `json:"best" doc:"The one of the highest mean quality."`
	Sure      bool          `json:"sure" doc:"The proposed plan loses less than the margin for sure. Else it is the cheapest within the margin by mean."`
	Better    bool          `json:"better,omitempty" doc:"It is for sure better than the collection's plan, or as good and cheaper."`
	Margin    float64       `json:"margin"`
	Questions int           `json:"questions" doc:"That were asked under every plan that was not dropped."`
	Needed    int           `json:"needed,omitempty" doc:"About how many questions would make it sure, if they go on as these did; absent where it is, or none would."`
	Plans     []PlanVerdict `json:"plans" doc:"The best first."`
}
