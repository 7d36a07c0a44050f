package schema

import (
	"cmp"
	"time"

	"github.com/google/uuid"
)

// Opinion is a verdict on an answer.
type Opinion string

// Opinions.
const (
	ThumbsUp   Opinion = "up"
	ThumbsDown Opinion = "down"
)

// Rating is the opinion of a key's holder on an answer.
type Rating struct {
	ID        uuid.UUID `json:"id"`
	Question  uuid.UUID `json:"question_id"`
	Key       uuid.UUID `json:"key_id"`
	Rating    Opinion   `json:"rating"`
	Comment   string    `json:"comment,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// RatedAnswer is a rating with its question and answer.
type RatedAnswer struct {
	Rating
	Collection uuid.UUID  `json:"collection_id"`
	Text       string     `json:"question"` // as it was asked
	Standalone string     `json:"standalone_question,omitempty" doc:"The question as it was made whole from a conversation and answered."`
	Choices    []string   `json:"choices,omitempty"`
	Plan       string     `json:"plan"`
	Answer     string     `json:"answer"`
	Supported  bool       `json:"supported"` // false: the documents do not say
	Choice     int        `json:"choice,omitempty"`
	Citations  []Citation `json:"citations"`
	Withheld   bool       `json:"withheld,omitempty" doc:"The answer was made from documents that the reader may not see now, and is left out."`
}

// Answered returns the question that was answered.
func (r RatedAnswer) Answered() string { return cmp.Or(r.Standalone, r.Text) }

// RatingQuery selects ratings. Fields with the zero value select all.
type RatingQuery struct {
	Rating     Opinion
	Collection uuid.UUID
	Question   uuid.UUID
	Own        bool // only of the caller's key
	PageQuery
}
