// Package config holds the settings of every program of Sluice as structs that
// kong fills: from flags, then SLUICE_* variables, then sluice.yaml. Nothing
// else reads the environment; a program's settings are defaulted and validated
// before anything is made from them.
package config

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// Database is where the store is.
type Database struct {
	DatabaseURL         string `env:"SLUICE_DATABASE_URL" placeholder:"URL" help:"PostgreSQL with pgvector, as postgres://user:password@host:port/database, with a login that owns nothing."`
	DatabaseConnections int32  `env:"SLUICE_DATABASE_CONNECTIONS" default:"32" help:"Connections that one process opens at most."`
}

// DatabaseOwner is who migrates the store.
type DatabaseOwner struct {
	DatabaseOwnerURL string `env:"SLUICE_DATABASE_OWNER_URL" placeholder:"URL" help:"The database as its owner, whom migrations run as; they make the logins of the other two URLs."`
}

// DatabaseVectors is who builds indexes of vectors.
type DatabaseVectors struct {
	DatabaseVectorURL string `env:"SLUICE_DATABASE_VECTOR_URL" placeholder:"URL" help:"The database as the owner of the partitions that large collections' vectors have; without it their search stays exact."`
}

// NATS is where messages go.
type NATS struct {
	NATSURL string `name:"nats-url" env:"SLUICE_NATS_URL" placeholder:"URL" help:"NATS with JetStream, as nats://host:4222, or tls://host:4222."`
	NATSFiles
}

// NATSFiles are what the connection to NATS is secured with.
type NATSFiles struct {
	NATSCredentials string `name:"nats-credentials" env:"SLUICE_NATS_CREDENTIALS" placeholder:"FILE" help:"This program's credentials: a file that 'sluice nats-config' wrote, or a .creds file. Without, the address has to hold user and password, or a token, which cannot tell programs apart."`
	NATSCA          string `name:"nats-ca" env:"SLUICE_NATS_CA" placeholder:"FILE" help:"Authorities, PEM, by which NATS' certificate is checked; the system's when empty."`
	NATSCert        string `name:"nats-cert" env:"SLUICE_NATS_CERT" placeholder:"FILE" help:"This program's certificate for NATS, PEM."`
	NATSKey         string `name:"nats-key" env:"SLUICE_NATS_KEY" placeholder:"FILE" help:"Its key, PEM."`
}

// Signing is how a program signs what it asks in the name of a tenant.
type Signing struct {
	SigningKey string `name:"signing-key" env:"SLUICE_SIGNING_KEY" placeholder:"FILE" help:"This program's private key, which 'sluice nats-config' makes; requests are not signed when empty."`
}

// Trust is whose requests in the name of a tenant a program takes.
type Trust struct {
	TrustedKeys string `name:"trusted-keys" env:"SLUICE_TRUSTED_KEYS" placeholder:"FILE" help:"Public keys of those who may ask in the name of a tenant; unsigned requests are taken when empty."`
}

// Signatures are both.
type Signatures struct {
	Signing
	Trust
}

// Streams bounds what waits in JetStream.
type Streams struct {
	QueuePerTenant int64 `env:"SLUICE_QUEUE_PER_TENANT" default:"10000" help:"Versions, or questions, of one tenant that wait in JetStream; more wait in Postgres."`
	StreamReplicas int   `env:"SLUICE_STREAM_REPLICAS" default:"1" help:"Replicas of each JetStream stream."`
}

// Temporal is where workflows run.
type Temporal struct {
	TemporalAddress   string `env:"SLUICE_TEMPORAL_ADDRESS" placeholder:"HOST:PORT" help:"Temporal's frontend."`
	TemporalNamespace string `env:"SLUICE_TEMPORAL_NAMESPACE" default:"default" help:"Temporal namespace."`

	TemporalTLSCA         string `name:"temporal-tls-ca" env:"SLUICE_TEMPORAL_TLS_CA" placeholder:"FILE" help:"Certificates that Temporal's must come from; the system's when empty. Connections are encrypted when this, a certificate, a server name or an API key is set."`
	TemporalTLSCert       string `name:"temporal-tls-cert" env:"SLUICE_TEMPORAL_TLS_CERT" placeholder:"FILE" help:"Certificate that is shown to Temporal; read anew for every connection."`
	TemporalTLSKey        string `name:"temporal-tls-key" env:"SLUICE_TEMPORAL_TLS_KEY" placeholder:"FILE" help:"Its key."`
	TemporalTLSServerName string `name:"temporal-tls-server-name" env:"SLUICE_TEMPORAL_TLS_SERVER_NAME" placeholder:"NAME" help:"Name that Temporal's certificate must have; the address' host when empty."`
	TemporalAPIKey        string `name:"temporal-api-key" env:"SLUICE_TEMPORAL_API_KEY" placeholder:"KEY" help:"API key of Temporal."`
}

// Log is how a program logs.
type Log struct {
	LogLevel  string `env:"SLUICE_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" help:"Least level that is logged: ${enum}."`
	LogFormat string `env:"SLUICE_LOG_FORMAT" default:"text" enum:"text,json" help:"Format of the log: ${enum}."`
}

// Health is where a worker shows itself.
type Health struct {
	HealthListen string `env:"SLUICE_HEALTH_LISTEN" default:":8081" placeholder:"ADDR" help:"Address of /healthz, /readyz and /metrics; \"off\" for none."`
}

// Model is which model pack runs, and how.
type Model struct {
	ModelPack      string `env:"SLUICE_MODEL_PACK" placeholder:"DIR" help:"Folder of the model pack, for 'sluice' also the name of an added one; when empty the one that 'sluice models use' chose, else the one shipped."`
	ModelProvider  string `env:"SLUICE_MODEL_PROVIDER" default:"cpu" enum:"cpu,cuda" help:"Where graphs run: ${enum}."`
	ModelThreads   int    `env:"SLUICE_MODEL_THREADS" default:"0" help:"Threads of one graph's run; 0 is half of the cores."`
	ONNXRuntimeLib string `name:"onnxruntime-lib" env:"SLUICE_ONNXRUNTIME_LIB" placeholder:"FILE" help:"The ONNX Runtime library; searched for when empty."`
}

// Hub is where models are fetched from, when somebody adds one.
type Hub struct {
	HubURL string `name:"hub-url" env:"SLUICE_HUB_URL" placeholder:"URL" help:"Address of a hub in Hugging Face's layout, for 'sluice models add hf:...'; nothing is fetched without it."`
}

// Parse bounds the parsing of one file.
type Parse struct {
	ParseWorkers int           `env:"SLUICE_PARSE_WORKERS" default:"0" help:"Parser processes; 0 is one per core."`
	ParseTimeout time.Duration `env:"SLUICE_PARSE_TIMEOUT" default:"60s" help:"Longest time one file may take to parse."`
	ParseMemory  int64         `env:"SLUICE_PARSE_MEMORY_MB" default:"1024" help:"Most memory, in MB, that a parser process may take."`
	ParsePages   int           `env:"SLUICE_PARSE_PAGES" default:"5000" help:"Most pages that one file may have."`
	ParseText    int64         `env:"SLUICE_PARSE_TEXT_MB" default:"20" help:"Most text, in MB, that one file may give."`
}

// Ingest is how documents are taken through their stages.
type Ingest struct {
	IngestBatches   int           `env:"SLUICE_INGEST_BATCHES" default:"4" help:"Batches that one worker holds open."`
	IngestBeside    int           `name:"ingest-batches-during-searches" env:"SLUICE_INGEST_BATCHES_DURING_SEARCHES" default:"0" help:"Batches that one worker holds open while somebody searches; 0 is half of the cores."`
	IngestBatchSize int           `env:"SLUICE_INGEST_BATCH_SIZE" default:"64" help:"Versions in a batch at most."`
	IngestLease     time.Duration `env:"SLUICE_INGEST_LEASE" default:"60s" help:"How long a version stays with a worker that has gone silent."`
	IngestRequeue   time.Duration `env:"SLUICE_INGEST_REQUEUE" default:"30s" help:"How much older than its tenant's oldest message a queued version must be to be queued again."`
	IngestReconcile time.Duration `env:"SLUICE_INGEST_RECONCILE" default:"5s" help:"How often unfinished versions are looked for."`
}

// Retention is how long questions, and the ledger of language model calls, are kept.
type Retention struct {
	KeepLLMCalls       int `name:"keep-llm-calls" env:"SLUICE_KEEP_LLM_CALLS" default:"90" placeholder:"DAYS" help:"Days that language model calls of questions, and their replies, are kept in the ledger; 0 for ever."`
	KeepLLMSearchCalls int `name:"keep-llm-search-calls" env:"SLUICE_KEEP_LLM_SEARCH_CALLS" default:"30" placeholder:"DAYS" help:"Days that those of searches are kept; 0 for ever."`
	KeepLLMDays        int `name:"keep-llm-days" env:"SLUICE_KEEP_LLM_DAYS" default:"800" placeholder:"DAYS" help:"Days that the sums of each day are kept, at least 62, for budgets count this month's; 0 for ever."`
	KeepQuestions      int `name:"keep-questions" env:"SLUICE_KEEP_QUESTIONS" default:"0" placeholder:"DAYS" help:"Days that questions are kept, with their answers; those that are rated stay. At least as many as their calls in the ledger; 0 for ever."`
	KeepRetrievals     int `name:"keep-retrievals" env:"SLUICE_KEEP_RETRIEVALS" default:"90" placeholder:"DAYS" help:"Days that what was found for a question, which only answering it needs, is kept; 0 for ever."`
}

// LLM is which language model answers.
type LLM struct {
	LLMProvider  string        `name:"llm-provider" env:"SLUICE_LLM_PROVIDER" default:"auto" enum:"auto,openai,anthropic,extractive" help:"Who answers: ${enum}; auto is openai with its key or base URL, else anthropic with its key, else extractive."`
	LLMFallback  []string      `name:"llm-fallback" env:"SLUICE_LLM_FALLBACK" placeholder:"PROVIDER,..." help:"Who answers while that provider cannot, in this order, e.g. anthropic,extractive; nobody when empty."`
	LLMTimeout   time.Duration `name:"llm-timeout" env:"SLUICE_LLM_TIMEOUT" default:"60s" help:"Longest time of one call."`
	LLMMaxTokens int           `name:"llm-max-tokens" env:"SLUICE_LLM_MAX_TOKENS" default:"1024" help:"Tokens of one reply at most."`

	LLMCacheAge time.Duration `name:"llm-cache-age" env:"SLUICE_LLM_CACHE_AGE" default:"24h" help:"How long a language model's reply is kept for the same request of the same tenant; 0 for no cache."`

	LLMBaseURL string   `name:"llm-base-url" env:"SLUICE_LLM_BASE_URL" placeholder:"URL" help:"Base URL of an OpenAI-compatible server (OpenAI, vLLM, Ollama)."`
	LLMAPIKey  string   `name:"llm-api-key" env:"SLUICE_LLM_API_KEY" placeholder:"KEY" help:"Its key."`
	LLMModel   string   `name:"llm-model" env:"SLUICE_LLM_MODEL" default:"gpt-4o-mini" help:"Its model."`
	LLMPrice   LLMPrice `name:"llm-price" env:"SLUICE_LLM_PRICE" default:"0.15/0.60" placeholder:"IN/OUT" help:"US dollars per million of its input and output tokens; set it together with the model."`

	AnthropicBaseURL string   `name:"llm-anthropic-base-url" env:"SLUICE_LLM_ANTHROPIC_BASE_URL" placeholder:"URL" help:"Address of Anthropic's Messages API, when it is another one than https://api.anthropic.com."`
	AnthropicAPIKey  string   `name:"llm-anthropic-api-key" env:"SLUICE_LLM_ANTHROPIC_API_KEY" placeholder:"KEY" help:"Its key."`
	AnthropicModel   string   `name:"llm-anthropic-model" env:"SLUICE_LLM_ANTHROPIC_MODEL" default:"claude-haiku-4-5" help:"Its model."`
	AnthropicPrice   LLMPrice `name:"llm-anthropic-price" env:"SLUICE_LLM_ANTHROPIC_PRICE" default:"1.00/5.00" placeholder:"IN/OUT" help:"US dollars per million of its input and output tokens; set it together with the model."`
}

// LLMPrice is what a provider's tokens cost, in US dollars per million.
type LLMPrice struct{ Input, Output float64 }

// UnmarshalText reads "IN/OUT".
func (p *LLMPrice) UnmarshalText(data []byte) error {
	in, out, ok := strings.Cut(string(data), "/")
	var problems [2]error
	p.Input, problems[0] = strconv.ParseFloat(strings.TrimSpace(in), 64)
	p.Output, problems[1] = strconv.ParseFloat(strings.TrimSpace(out), 64)
	if !ok || errors.Join(problems[:]...) != nil || !(p.Input >= 0 && p.Input < 1e6 && p.Output >= 0 && p.Output < 1e6) {
		return schema.Invalid("price", "%q: needs two numbers of US dollars, as in 0.15/0.60", data)
	}
	return nil
}

// Plans are the retrieval plans of one's own, of query workers and of the API,
// which needs the same ones.
type Plans struct {
	Plans string `env:"SLUICE_PLANS" placeholder:"DIR" help:"Folder with more retrieval plans, a YAML file each, named after its plan; read at the start, also by serve."`
}

// Answering is how questions are answered.
type Answering struct {
	Plans
	QueryConcurrency int           `env:"SLUICE_QUERY_CONCURRENCY" default:"0" help:"Searches that one worker runs at once; 0 is twice the cores, and at least 4. More make none faster, and all slower."`
	QueryQuestions   int           `name:"question-concurrency" env:"SLUICE_QUESTION_CONCURRENCY" default:"16" help:"Questions that one worker answers at once, and as many of jobs."`
	QueryTenant      int           `name:"query-tenant-concurrency" env:"SLUICE_QUERY_TENANT_CONCURRENCY" default:"0" help:"Searches of one tenant that one worker runs at once, on average, while other tenants search too; 0 is half of the cores."`
	QueryTimeout     time.Duration `env:"SLUICE_QUERY_TIMEOUT" default:"30s" help:"Longest time of a search, waiting for its turn included."`
	LexicalCache     int64         `name:"lexical-cache-mb" env:"SLUICE_LEXICAL_CACHE_MB" default:"256" help:"Memory, in MB, that one worker keeps of lexical indexes."`
	VectorCache      int64         `name:"vector-cache-mb" env:"SLUICE_VECTOR_CACHE_MB" default:"256" help:"Memory, in MB, that one worker keeps of vectors of collections without an index of their own."`
	ShadowShare      float64       `env:"SLUICE_SHADOW_SHARE" default:"0.05" help:"Share of answered questions, of plans that may skip retrieval, that are asked without it, too, to learn what the language model knows; 0: none."`
	SlowSearch       time.Duration `env:"SLUICE_SLOW_SEARCH" default:"1s" help:"Searches that take as long are kept as slow ones, for their tenant's admins; 0 keeps none."`
	QuestionLease    time.Duration `env:"SLUICE_QUESTION_LEASE" default:"60s" help:"How long an async question stays with a worker that has gone silent."`
}

// Webhooks are how tenants' servers are told of events.
type Webhooks struct {
	WebhookAllowPrivate []string `env:"SLUICE_WEBHOOK_ALLOW_PRIVATE" sep:"," placeholder:"CIDR" help:"Ranges of addresses, as 10.1.0.0/16, that webhooks may be sent to though they are not public; none when empty."`
	PublicURL           string   `name:"public-url" env:"SLUICE_PUBLIC_URL" placeholder:"URL" help:"Where tenants reach the API, for links in webhooks; links are paths when empty."`
}

// HTTP is how the API is served.
type HTTP struct {
	Listen        string        `env:"SLUICE_LISTEN" default:"127.0.0.1:7700" placeholder:"ADDR" help:"Address of the API."`
	APITLSCert    string        `name:"api-tls-cert" env:"SLUICE_API_TLS_CERT" placeholder:"FILE" help:"Certificate of the API, PEM, with those that lead to its authority; the API speaks HTTPS when it is set. Replaced files are read without a restart."`
	APITLSKey     string        `name:"api-tls-key" env:"SLUICE_API_TLS_KEY" placeholder:"FILE" help:"Its key, PEM."`
	MetricsListen string        `env:"SLUICE_METRICS_LISTEN" default:"off" placeholder:"ADDR" help:"Address of /metrics, apart from the API's, as 127.0.0.1:9464; \"off\" for none."`
	MaxUpload     int64         `name:"max-upload-mb" env:"SLUICE_MAX_UPLOAD_MB" default:"100" help:"Largest file, in MB, that is taken."`
	AskTimeout    time.Duration `env:"SLUICE_ASK_TIMEOUT" default:"2m" help:"Longest time of a synchronous question."`
	TenantOpen    int           `name:"tenant-searches" env:"SLUICE_TENANT_SEARCHES" default:"32" help:"Searches and synchronous questions of one tenant that one API process holds open; more are refused with 429."`

	TraceURL string `name:"trace-url" env:"SLUICE_TRACE_URL" placeholder:"URL" help:"Where the traces' own pages are, with {trace} for a trace's id, as https://jaeger.example/trace/{trace}; the back office links to them."`

	SessionSecret string `env:"SLUICE_SESSION_SECRET" placeholder:"SECRET" help:"What browsers' sessions are sealed with, at least 32 bytes, the same for all API processes; empty: a new one at every start."`
}

// Disk is what is left of it, where one machine runs everything.
type Disk struct {
	KeepFree int64 `env:"SLUICE_KEEP_FREE" default:"512" placeholder:"MB" help:"Room of the data's disk that uploads leave, in MB, or a twentieth of the disk where that is less: below it they are refused. 0: none."`
}

// Client is how the command-line tool finds a server.
type Client struct {
	URL      string `name:"url" env:"SLUICE_URL" placeholder:"URL" help:"The server; the one that 'sluice up' started when empty."`
	APITLSCA string `name:"api-tls-ca" env:"SLUICE_API_TLS_CA" placeholder:"FILE" help:"Authorities, PEM, by which the server's certificate is checked; the system's when empty."`
	APIKey   string `name:"api-key" env:"SLUICE_API_KEY" placeholder:"KEY" help:"The API key; the one that 'sluice up' printed when empty."`
	Data     string `env:"SLUICE_DATA" placeholder:"DIR" help:"Data directory of 'sluice up'; 'data' in SLUICE_HOME (/var/lib/sluice for root, else ~/.local/share/sluice) when empty."`
}

// Require reports the first of the named settings that is empty, with the
// variable that sets it.
func Require(settings ...[2]string) error {
	for _, s := range settings {
		if s[1] == "" {
			return schema.Invalid(s[0], "must be set, by its flag, in the environment or in sluice.yaml")
		}
	}
	return nil
}

// Connections are the parts that every worker talks to. kong validates them, so
// what can do without one (sluice up) embeds the parts instead.
type Connections struct {
	Database
	NATS
	Temporal
}

// Validate reports the first missing connection.
func (c Connections) Validate() error {
	return Require([2]string{"SLUICE_DATABASE_URL", c.DatabaseURL}, [2]string{"SLUICE_NATS_URL", c.NATSURL},
		[2]string{"SLUICE_TEMPORAL_ADDRESS", c.TemporalAddress})
}

// IngestWorker are the settings of ingest-worker.
type IngestWorker struct {
	Connections
	DatabaseVectors
	Streams
	Ingest
	Retention
	Parse
	Health
	Log
}

// QueryWorker are the settings of query-worker.
type QueryWorker struct {
	Connections
	Signatures
	Streams
	Answering
	Webhooks
	Health
	Log
}

// LLMGateway are the settings of llm-gateway.
type LLMGateway struct {
	Database
	NATS
	Trust
	LLM
	Health
	Log
}

// GPUSegmenter are the settings of gpu-segmenter.
type GPUSegmenter struct {
	NATS
	Model
	Health
	Log
}
