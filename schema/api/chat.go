package api

import "github.com/google/uuid"

// ChatRequest is a request for a chat completion in the form of OpenAI's clients.
type ChatRequest struct {
	Model         string             `json:"model" minLength:"1" maxLength:"193" doc:"A collection, or a collection, a slash and a plan, as /v1/models lists them."`
	Messages      []ChatMessage      `json:"messages" minItems:"1" maxItems:"201" doc:"The last one of the user is the question; those of user and assistant before it are the history, at most 256 KiB together. Those of system and developer have no effect."`
	Stream        bool               `json:"stream,omitempty" doc:"Send chat.completion.chunk events. Text comes once it is checked, all of it at once."`
	StreamOptions *ChatStreamOptions `json:"stream_options,omitempty"`

	ChatUnsupported
	ChatIgnored
}

// ChatUnsupported are fields of ChatRequest that ask for something that is not supported.
type ChatUnsupported struct {
	N                any `json:"n,omitempty" doc:"1 or absent; anything else is refused."`
	Stop             any `json:"stop,omitempty" doc:"Refused, unless it is empty."`
	Tools            any `json:"tools,omitempty" doc:"Refused, unless it is empty."`
	ToolChoice       any `json:"tool_choice,omitempty" doc:"none or auto; anything else is refused."`
	Functions        any `json:"functions,omitempty" doc:"Refused, unless it is empty."`
	FunctionCall     any `json:"function_call,omitempty" doc:"none or auto; anything else is refused."`
	ResponseFormat   any `json:"response_format,omitempty" doc:"Text; anything else is refused."`
	Logprobs         any `json:"logprobs,omitempty" doc:"false; anything else is refused."`
	TopLogprobs      any `json:"top_logprobs,omitempty" doc:"0; anything else is refused."`
	LogitBias        any `json:"logit_bias,omitempty" doc:"Refused, unless it is empty."`
	Modalities       any `json:"modalities,omitempty" doc:"Text alone; anything else is refused."`
	Audio            any `json:"audio,omitempty" doc:"Refused."`
	WebSearchOptions any `json:"web_search_options,omitempty" doc:"Refused: answers are from the collection's documents."`
}

// ChatIgnored are fields of ChatRequest that have no effect.
type ChatIgnored struct {
	Temperature         any `json:"temperature,omitempty" doc:"Without effect."`
	TopP                any `json:"top_p,omitempty" doc:"Without effect."`
	MaxTokens           any `json:"max_tokens,omitempty" doc:"Without effect: an answer that was checked is told whole."`
	MaxCompletionTokens any `json:"max_completion_tokens,omitempty" doc:"Without effect, as max_tokens."`
	PresencePenalty     any `json:"presence_penalty,omitempty" doc:"Without effect."`
	FrequencyPenalty    any `json:"frequency_penalty,omitempty" doc:"Without effect."`
	Seed                any `json:"seed,omitempty" doc:"Without effect."`
	User                any `json:"user,omitempty" doc:"Without effect: the header X-Sluice-Person says for whom a key asks."`
	SafetyIdentifier    any `json:"safety_identifier,omitempty" doc:"Without effect."`
	Metadata            any `json:"metadata,omitempty" doc:"Without effect."`
	Store               any `json:"store,omitempty" doc:"Without effect: questions are kept as everywhere."`
	ServiceTier         any `json:"service_tier,omitempty" doc:"Without effect."`
	ReasoningEffort     any `json:"reasoning_effort,omitempty" doc:"Without effect."`
	Verbosity           any `json:"verbosity,omitempty" doc:"Without effect."`
	ParallelToolCalls   any `json:"parallel_tool_calls,omitempty" doc:"Without effect: there are no tools."`
	Prediction          any `json:"prediction,omitempty" doc:"Without effect."`
	PromptCacheKey      any `json:"prompt_cache_key,omitempty" doc:"Without effect."`
}

// ChatMessage is a message of a conversation.
type ChatMessage struct {
	Role    string `json:"role" enum:"user,assistant,system,developer,tool,function"`
	Content any    `json:"content" doc:"A text, or a list of parts of type text; at most 20,000 characters."`

	Name         any `json:"name,omitempty" doc:"Without effect."`
	Refusal      any `json:"refusal,omitempty" doc:"Without effect."`
	Annotations  any `json:"annotations,omitempty" doc:"Without effect."`
	ToolCalls    any `json:"tool_calls,omitempty" doc:"Refused, unless it is empty."`
	FunctionCall any `json:"function_call,omitempty" doc:"Refused, unless it is empty."`
	ToolCallID   any `json:"tool_call_id,omitempty" doc:"Refused, unless it is empty."`
	Audio        any `json:"audio,omitempty" doc:"Refused, unless it is empty."`
}

// ChatStreamOptions are the options of a stream.
type ChatStreamOptions struct {
	IncludeUsage       bool `json:"include_usage,omitempty" doc:"Send a last chunk with the usage and without choices."`
	IncludeObfuscation any  `json:"include_obfuscation,omitempty" doc:"Without effect."`
}

// ChatCompletion is an answer in the form of OpenAI's clients.
type ChatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object" enum:"chat.completion"`
	Created int64        `json:"created" doc:"In seconds since 1970."`
	Model   string       `json:"model"`
	Choices []ChatChoice `json:"choices" doc:"One."`
	Usage   ChatUsage    `json:"usage"`
	Sluice  ChatAnswer   `json:"sluice" doc:"What OpenAI's format has no place for."`
}

// ChatChoice is the only choice of a completion: the answer.
type ChatChoice struct {
	Index        int       `json:"index"`
	Message      ChatReply `json:"message"`
	Logprobs     *struct{} `json:"logprobs" doc:"null."`
	FinishReason string    `json:"finish_reason" enum:"stop"`
}

// ChatReply is the message with the answer.
type ChatReply struct {
	Role        string           `json:"role" enum:"assistant"`
	Content     string           `json:"content"`
	Refusal     *string          `json:"refusal" doc:"null: that the documents do not say is told as content."`
	Annotations []ChatAnnotation `json:"annotations" doc:"The citations of an answer that is supported: one for each sentence and what it cites."`
}

// ChatAnnotation cites a document for a range of the text.
type ChatAnnotation struct {
	Type        string          `json:"type" enum:"url_citation"`
	URLCitation ChatURLCitation `json:"url_citation"`
}

// ChatURLCitation is the citation for characters [StartIndex, EndIndex) of the text, counted as
// Unicode code points.
type ChatURLCitation struct {
	StartIndex int    `json:"start_index" doc:"First character of the text that it is cited for, from 0, in Unicode code points."`
	EndIndex   int    `json:"end_index" doc:"Character behind the last one."`
	Title      string `json:"title"`
	URL        string `json:"url" doc:"Where this server shows the quote in its document."`
}

// ChatUsage is the number of tokens of an answer.
type ChatUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// ChatAnswer has the fields of an answer that a chat completion has no place for.
type ChatAnswer struct {
	QuestionID uuid.UUID `json:"question_id" doc:"Under which /v1/questions keeps the question and its answer, with verbatim quotes."`
	Question   string    `json:"question" doc:"As it was asked."`
	Standalone string    `json:"standalone_question,omitempty" doc:"The question as it was made whole from the history and answered; absent where that changed nothing."`
	Supported  bool      `json:"supported" doc:"false: the documents do not say."`
	Withheld   bool      `json:"withheld,omitempty" doc:"It was made from documents that the reader may not see now."`
	Notes      []string  `json:"notes,omitempty" doc:"What the question asks for and a cited document does not fit."`
	Plan       string    `json:"plan"`
	PlanNote   string    `json:"plan_note,omitempty" doc:"Why it was not the collection's plan that ran."`
}

// ChatChunk is a chunk of a streamed answer.
type ChatChunk struct {
	ID      string            `json:"id"`
	Object  string            `json:"object" enum:"chat.completion.chunk"`
	Created int64             `json:"created"`
	Model   string            `json:"model"`
	Choices []ChatChunkChoice `json:"choices"`
	Usage   *ChatUsage        `json:"usage,omitempty" doc:"In a last chunk without choices, where stream_options.include_usage asks for it."`
	Sluice  *ChatAnswer       `json:"sluice,omitempty" doc:"In the chunk with the finish_reason."`
}

// ChatChunkChoice is what a chunk adds to the choice.
type ChatChunkChoice struct {
	Index        int       `json:"index"`
	Delta        ChatDelta `json:"delta"`
	Logprobs     *struct{} `json:"logprobs" doc:"null."`
	FinishReason *string   `json:"finish_reason" doc:"null but in the last."`
}

// ChatDelta is what a chunk adds to the message.
type ChatDelta struct {
	Role        string           `json:"role,omitempty"`
	Content     *string          `json:"content,omitempty"`
	Annotations []ChatAnnotation `json:"annotations,omitempty"`
}

// ChatModels lists the models that chat completions may name.
type ChatModels struct {
	Object string      `json:"object" enum:"list"`
	Data   []ChatModel `json:"data"`
}

// ChatModel is a collection, or a collection with a plan.
type ChatModel struct {
	ID      string `json:"id"`
	Object  string `json:"object" enum:"model"`
	Created int64  `json:"created" doc:"When the collection was made, in seconds since 1970."`
	OwnedBy string `json:"owned_by"`
}

// ChatError is an error in the form of OpenAI's clients.
type ChatError struct {
	Message string  `json:"message"`
	Type    string  `json:"type" doc:"invalid_request_error, authentication_error, permission_error, rate_limit_error or server_error."`
	Param   *string `json:"param" doc:"The field that is wrong."`
	Code    *string `json:"code" doc:"Such as model_not_found or unsupported_parameter."`
}
