package schema

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// PlanStanding is the verdict of a choice of plans on one plan.
type PlanStanding string

// The values of PlanStanding.
const (
	PlanChosen  PlanStanding = "chosen"  // the proposed one
	PlanAsGood  PlanStanding = "as-good" // certainly within the margin too, but costs more
	PlanBest    PlanStanding = "best"    // the highest quality, but costs more
	PlanNear    PlanStanding = "near"    // within the margin by its mean, but costs more
	PlanWorse   PlanStanding = "worse"   // loses more than the margin by its mean, or may do so
	PlanDropped PlanStanding = "dropped" // clearly worse after the first questions, and not measured further
)

// PlanVerdict is the measurement of one plan, and the verdict on it.
type PlanVerdict struct {
	Plan         string       `json:"plan"`
	Questions    int          `json:"questions" doc:"That it was asked."`
	Quality      float64      `json:"quality" doc:"Mean over the questions, from 0 to 1."`
	Interval     Interval     `json:"interval" doc:"95 % interval of the quality."`
	Loss         float64      `json:"loss" doc:"Mean quality that it loses against the best plan, on the questions of both."`
	LossInterval Interval     `json:"loss_interval" doc:"95 % interval of the loss."`
	LossBound    *float64     `json:"loss_bound,omitempty" doc:"What it loses at most against any plan: the bound by which plans are chosen. Absent for a dropped plan."`
	NDCG         *float64     `json:"ndcg,omitempty" doc:"Mean nDCG@10 of the documents that answer, where these are known."`
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

// PlanChoiceState is the state of a choice of plans.
type PlanChoiceState string

// States of a choice. Done, failed and cancelled are final.
const (
	ChoiceQueued    PlanChoiceState = "queued"
	ChoiceRunning   PlanChoiceState = "running"
	ChoiceDone      PlanChoiceState = "done"
	ChoiceFailed    PlanChoiceState = "failed"
	ChoiceCancelled PlanChoiceState = "cancelled"
)

// Final reports whether the choice has ended.
func (s PlanChoiceState) Final() bool {
	return s == ChoiceDone || s == ChoiceFailed || s == ChoiceCancelled
}

// QuestionSource is where a question of a choice comes from.
type QuestionSource string

// Sources, from the most to the least typical of what people ask.
const (
	QuestionLabelled QuestionSource = "labelled" // came with the request, or with an earlier choice
	QuestionRated    QuestionSource = "rated"    // asked before, with an answer that was rated good
	QuestionWritten  QuestionSource = "written"  // by a language model, from a passage
	QuestionMade     QuestionSource = "made"     // by rules, from a sentence of a passage
)

// QuestionSources lists all sources in that order.
var QuestionSources = []QuestionSource{QuestionLabelled, QuestionRated, QuestionWritten, QuestionMade}

// SourceCount is the number of questions from a source.
type SourceCount struct {
	Source    QuestionSource `json:"source" enum:"labelled,rated,written,made"`
	Questions int            `json:"questions"`
}

// ChoiceQuestion is a question that plans are measured on.
type ChoiceQuestion struct {
	Number int            `json:"number"`
	Source QuestionSource `json:"source" enum:"labelled,rated,written,made"`
	LabelledQuestion
	Evidence string `json:"evidence,omitempty" doc:"The sentence that answers it."`
}

// Limits of a choice.
const (
	MaxChoicePlans     = 64
	MaxChoiceQuestions = 2000
	// MaxChoiceTime bounds the time for measuring, in seconds: one day.
	MaxChoiceTime = 86_400
	// MaxChoiceEvery bounds the days between repetitions: one year.
	MaxChoiceEvery = 366
	// DefaultChoiceQuestions is how many questions are asked by default.
	DefaultChoiceQuestions = 300
)

// NewPlanChoice asks for a choice of plans. Zero values take the defaults.
type NewPlanChoice struct {
	Plans     []string           // empty: all of the server's and of the tenant's own
	Questions []LabelledQuestion // asked first
	Limit     int                // most questions
	Seconds   int                // most time for measuring; 0: no limit
	Every     int                // days until it is repeated; 0: never
}

// Complete checks the request and fills in defaults.
func (n NewPlanChoice) Complete() (NewPlanChoice, error) {
	if n.Limit == 0 {
		n.Limit = max(DefaultChoiceQuestions, len(n.Questions))
	}
	switch {
	case n.Limit < 1 || n.Limit > MaxChoiceQuestions:
		return n, Invalid("questions_limit", "must be from 1 to %d", MaxChoiceQuestions)
	case n.Seconds < 0 || n.Seconds > MaxChoiceTime:
		return n, Invalid("at_most_seconds", "must be from 0 (no limit) to %d", MaxChoiceTime)
	case n.Every < 0 || n.Every > MaxChoiceEvery:
		return n, Invalid("repeat_days", "must be from 1 to %d, or 0 for never", MaxChoiceEvery)
	case len(n.Plans) > MaxChoicePlans:
		return n, Invalid("plans", "has %d plans; at most %d are allowed", len(n.Plans), MaxChoicePlans)
	case len(n.Questions) > MaxChoiceQuestions:
		return n, Invalid("questions", "has %d questions; at most %d are allowed", len(n.Questions), MaxChoiceQuestions)
	}
	seen := map[string]bool{}
	for i, name := range n.Plans {
		field := fmt.Sprintf("plans[%d]", i)
		if err := CheckLength(field, name, 1, MaxPlanName); err != nil {
			return n, err
		}
		if seen[name] {
			return n, Invalid(field, "%q is named twice", name)
		}
		seen[name] = true
	}
	for i, q := range n.Questions {
		if err := q.check(fmt.Sprintf("questions[%d]", i)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// CheckKnown returns an error that names the first invalid field of a question for a choice of
// plans.
func (q LabelledQuestion) CheckKnown() error { return q.check("question") }

// check is CheckKnown for the question in field at.
func (q LabelledQuestion) check(at string) error {
	if err := CheckCharacters(at+".question", strings.TrimSpace(q.Question), 1, MaxQuestion); err != nil {
		return err
	}
	for _, of := range []struct {
		name          string
		values        []string
		maxCharacters int
	}{{"answers", q.Answers, MaxRightAnswer}, {"answer_contains", q.Contains, MaxRightAnswer}, {"documents", q.Documents, MaxExternalID}} {
		if len(of.values) > MaxRightAnswers {
			return Invalid(at+"."+of.name, "has %d entries; at most %d are allowed", len(of.values), MaxRightAnswers)
		}
		for i, v := range of.values {
			if err := CheckCharacters(fmt.Sprintf("%s.%s[%d]", at, of.name, i), strings.TrimSpace(v), 1, of.maxCharacters); err != nil {
				return err
			}
		}
	}
	if len(q.Documents)+len(q.Answers)+len(q.Contains) == 0 {
		return Invalid(at, "says neither what the answer is (answers, answer_contains) nor which documents have it (documents)")
	}
	return nil
}

// LeftOut is a plan that could not be measured.
type LeftOut struct {
	Plan   string `json:"plan"`
	Reason string `json:"reason"`
}

// PlanChoice is a measurement of plans on a collection's questions, and what it proposes.
type PlanChoice struct {
	ID           uuid.UUID       `json:"id"`
	CollectionID uuid.UUID       `json:"collection_id"`
	State        PlanChoiceState `json:"state" enum:"queued,running,done,failed,cancelled"`
	Stage        string          `json:"stage,omitempty" doc:"Of a running one: questions, measure."`
	Plans        []string        `json:"plans" doc:"That are compared."`
	Dropped      []string        `json:"dropped,omitempty" doc:"That were clearly worse after the first questions, and are asked no more."`
	LeftOut      []LeftOut       `json:"left_out,omitempty" doc:"That cannot be run here."`
	Limit        int             `json:"questions_limit"`
	Seconds      int             `json:"at_most_seconds,omitempty"`
	Sources      []SourceCount   `json:"sources,omitempty" doc:"What the questions are made from."`
	Questions    int             `json:"questions" doc:"That there are."`
	Asked        int             `json:"asked" doc:"That were asked so far."`
	Notes        []string        `json:"notes,omitempty"`
	Reason       string          `json:"reason,omitempty" doc:"Of a failure."`
	Result       *PlanVerdicts   `json:"result,omitempty"`
	Every        int             `json:"repeat_days,omitempty" doc:"Days after which it is repeated with new questions."`
	Recheck      int             `json:"recheck,omitempty" doc:"How often it was repeated before, this time included; absent: somebody asked for it."`
	NextAt       *time.Time      `json:"next_at,omitempty" doc:"When it is repeated."`
	Applied      string          `json:"applied,omitempty" doc:"The plan that the collection got of it."`
	CreatedAt    time.Time       `json:"created_at"`
	FinishedAt   *time.Time      `json:"finished_at,omitempty"`
}
