// Package config has the settings of all programs of Sluice as structs that kong fills: from flags,
// then SLUICE_* variables, then sluice.yaml. Nothing else reads the environment. Defaults are set
// and settings are validated before a program uses them.
package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/memory"
	"github.com/sluice-rag/sluice/schema"
)

// Database has the settings of the connection to the store.
type Database struct {
	DatabaseURL         string `env:"SLUICE_DATABASE_URL" placeholder:"URL" help:"PostgreSQL with pgvector, as postgres://user:password@host:port/database, with a login that owns nothing." when:"the database is not the one that 'sluice up' starts"`
	DatabaseConnections int32  `env:"SLUICE_DATABASE_CONNECTIONS" default:"32" help:"Connections that one process opens at most for its work; one more checks whether the database answers." when:"what all processes may open together exceeds Postgres' max_connections, or requests wait for a connection"`
	DatabasePooled      bool   `env:"SLUICE_DATABASE_POOLED" help:"The database's URL leads to a pooler that lends a connection for one transaction at a time, as PgBouncer does with pool_mode=transaction." when:"all processes together open more connections than Postgres takes"`
	DatabaseDirectURL   string `env:"SLUICE_DATABASE_DIRECT_URL" placeholder:"URL" help:"The server itself, with the same login, where the database's URL leads to a pooler: each ingest worker holds one connection to it." when:"SLUICE_DATABASE_POOLED is true"`
}

// ServerURL returns the address for making and testing the programs' login, which a pooler may not
// know yet.
func (d Database) ServerURL() string {
	if d.DatabasePooled && d.DatabaseDirectURL != "" {
		return d.DatabaseDirectURL
	}
	return d.DatabaseURL
}

// DatabaseOwner has the login that migrates the store.
type DatabaseOwner struct {
	DatabaseOwnerURL string `env:"SLUICE_DATABASE_OWNER_URL" placeholder:"URL" help:"The database as its owner, whom migrations run as; they make the logins of the other two URLs." when:"the database is not the one that 'sluice up' starts"`
}

// DatabaseAdmin has the login that backs up the store and erases tenants.
type DatabaseAdmin struct {
	DatabaseAdminURL string `env:"SLUICE_DATABASE_ADMIN_URL" placeholder:"URL" help:"The database as a login that row-level security does not bind: a superuser, or, to back up, a role with BYPASSRLS that may read all tables." when:"the database is not the one that 'sluice up' starts, and is backed up, or a tenant is erased"`
}

// PostgresTools has the directory of the programs that dump and restore the store.
type PostgresTools struct {
	PostgresTools string `name:"postgres-tools" env:"SLUICE_POSTGRES_TOOLS" placeholder:"DIR" help:"Directory of pg_dump and pg_restore, which must not be older than the server; looked for on PATH and where systems put them when empty." when:"they are elsewhere"`
}

// DatabaseVectors has the settings for building vector indexes.
type DatabaseVectors struct {
	DatabaseVectorURL string `env:"SLUICE_DATABASE_VECTOR_URL" placeholder:"URL" help:"The database as the owner of the partitions that large collections' vectors have; without it their search stays exact." when:"the database is not the one that 'sluice up' starts, and collections have more than 20,000 passages"`
	IndexBuilds       int    `env:"SLUICE_INDEX_BUILDS" default:"1" help:"Indexes of vectors that are built at once in the database, by all ingest workers together." when:"large collections wait long for their indexes, and the database has processors and memory (up to 1 GB each) to spare"`
}

// Blobs has the settings of the storage of documents' bytes.
type Blobs struct {
	Blobs         string `name:"blobs" env:"SLUICE_BLOBS" default:"postgres" enum:"postgres,s3" help:"Where the bytes of documents that come are kept: ${enum}. Those that are there stay where they are until 'sluice blobs move'." when:"documents take more room than Postgres and its backups are to have"`
	S3Endpoint    string `name:"s3-endpoint" env:"SLUICE_S3_ENDPOINT" placeholder:"URL" help:"Address of an S3 service, http or https, without the bucket, as https://s3.eu-central-1.amazonaws.com." when:"bytes of documents are kept in S3, or some still are"`
	S3Bucket      string `name:"s3-bucket" env:"SLUICE_S3_BUCKET" placeholder:"NAME" help:"The bucket, which has to be there." when:"bytes of documents are kept in S3"`
	S3Prefix      string `name:"s3-prefix" env:"SLUICE_S3_PREFIX" placeholder:"PREFIX" help:"What the names of all objects begin with, as sluice/; never changed while there are objects." when:"the bucket has other objects, too"`
	S3Region      string `name:"s3-region" env:"SLUICE_S3_REGION" placeholder:"NAME" help:"The bucket's region; the service is asked when empty." when:"the keys may not ask for it"`
	S3AccessKey   string `name:"s3-access-key" env:"SLUICE_S3_ACCESS_KEY" placeholder:"KEY" help:"Access key, which may list the bucket, and get, put and delete objects." when:"bytes of documents are kept in S3"`
	S3SecretKey   string `name:"s3-secret-key" env:"SLUICE_S3_SECRET_KEY" placeholder:"KEY" help:"Its secret key." when:"bytes of documents are kept in S3"`
	S3Credentials string `name:"s3-credentials" env:"SLUICE_S3_CREDENTIALS" placeholder:"FILE" help:"File with the access key in its first line and the secret key in its second, in place of both; read again every minute." when:"keys are not to be in the environment, or are replaced"`
	S3CA          string `name:"s3-ca" env:"SLUICE_S3_CA" placeholder:"FILE" help:"Authorities, PEM, by which the service's certificate is checked; the system's when empty." when:"the service has a certificate of an authority of one's own"`
	S3Addressing  string `name:"s3-addressing" env:"SLUICE_S3_ADDRESSING" default:"auto" enum:"auto,path,host" help:"Where the bucket's name is in addresses: ${enum}; auto is in the host's name at Amazon's and in the path elsewhere." when:"the service wants the other way"`
}

// DatabaseReplica has the settings of a replica from which searches may read.
type DatabaseReplica struct {
	DatabaseReplicaURL string        `env:"SLUICE_DATABASE_REPLICA_URL" placeholder:"URL" help:"A hot standby of the database, with the login of the database's URL, that query workers read searches from; the database is asked whether it has what was committed, and read where it has not. It may lead through a pooler where the database's URL does. None when empty." when:"searches are to take less of the database, or more searches are made than it answers"`
	DatabaseReplicaLag time.Duration `env:"SLUICE_DATABASE_REPLICA_LAG" default:"5s" help:"How far the replica may be behind; beyond, it is not read until it has caught up." when:"a replica that is behind is not to be tried, or one that is far away is"`
}

// NATS has the settings of the connection to NATS.
type NATS struct {
	NATSURL string `name:"nats-url" env:"SLUICE_NATS_URL" placeholder:"URL" help:"NATS with JetStream, as nats://host:4222, or tls://host:4222." when:"NATS is not the one that 'sluice up' starts"`
	NATSFiles
}

// NATSFiles are the files that secure the connection to NATS.
type NATSFiles struct {
	NATSCredentials string `name:"nats-credentials" env:"SLUICE_NATS_CREDENTIALS" placeholder:"FILE" help:"This program's credentials: a file that 'sluice nats-config' wrote, or a .creds file. Without, the address has to hold user and password, or a token, which cannot tell programs apart." when:"programs run apart; each has its own"`
	NATSCA          string `name:"nats-ca" env:"SLUICE_NATS_CA" placeholder:"FILE" help:"Authorities, PEM, by which NATS' certificate is checked; the system's when empty." when:"NATS speaks TLS with a certificate of an authority of one's own"`
	NATSCert        string `name:"nats-cert" env:"SLUICE_NATS_CERT" placeholder:"FILE" help:"This program's certificate for NATS, PEM." when:"NATS asks programs for certificates"`
	NATSKey         string `name:"nats-key" env:"SLUICE_NATS_KEY" placeholder:"FILE" help:"Its key, PEM." when:"NATS asks programs for certificates"`
}

// Signing has the key with which a program signs requests in the name of a tenant.
type Signing struct {
	SigningKey string `name:"signing-key" env:"SLUICE_SIGNING_KEY" placeholder:"FILE" help:"This program's private key, which 'sluice nats-config' makes; requests are not signed when empty." when:"programs run apart"`
}

// Trust has the keys of programs whose requests in the name of a tenant are accepted.
type Trust struct {
	TrustedKeys string `name:"trusted-keys" env:"SLUICE_TRUSTED_KEYS" placeholder:"FILE" help:"Public keys of those who may ask in the name of a tenant; unsigned requests are taken when empty." when:"programs run apart"`
}

// Signatures has both.
type Signatures struct {
	Signing
	Trust
}

// Streams has the settings of the JetStream streams.
type Streams struct {
	QueuePerTenant int64 `env:"SLUICE_QUEUE_PER_TENANT" default:"2000" help:"Versions, or questions, of one tenant that wait in JetStream, those in work included; more wait in Postgres. While workers take them slowly or several tenants have some, JetStream gets fewer (docs/fairness.md)." when:"one tenant alone is to fill more workers than that"`
	StreamReplicas int   `env:"SLUICE_STREAM_REPLICAS" default:"1" help:"Replicas of each JetStream stream." when:"NATS is a cluster: 3 let one server fail"`
}

// Temporal has the settings of the connection to Temporal.
type Temporal struct {
	TemporalAddress   string `env:"SLUICE_TEMPORAL_ADDRESS" placeholder:"HOST:PORT" help:"Temporal's frontend." when:"Temporal is not the one that 'sluice up' starts"`
	TemporalNamespace string `env:"SLUICE_TEMPORAL_NAMESPACE" default:"default" help:"Temporal namespace." when:"Temporal is shared with others"`

	TemporalTLSCA         string `name:"temporal-tls-ca" env:"SLUICE_TEMPORAL_TLS_CA" placeholder:"FILE" help:"Certificates that Temporal's must come from; the system's when empty. Connections are encrypted when this, a certificate, a server name or an API key is set." when:"Temporal has a certificate of an authority of one's own"`
	TemporalTLSCert       string `name:"temporal-tls-cert" env:"SLUICE_TEMPORAL_TLS_CERT" placeholder:"FILE" help:"Certificate that is shown to Temporal; read anew for every connection." when:"Temporal asks for certificates"`
	TemporalTLSKey        string `name:"temporal-tls-key" env:"SLUICE_TEMPORAL_TLS_KEY" placeholder:"FILE" help:"Its key." when:"Temporal asks for certificates"`
	TemporalTLSServerName string `name:"temporal-tls-server-name" env:"SLUICE_TEMPORAL_TLS_SERVER_NAME" placeholder:"NAME" help:"Name that Temporal's certificate must have; the address' host when empty." when:"the certificate has another name than the address"`
	TemporalAPIKey        string `name:"temporal-api-key" env:"SLUICE_TEMPORAL_API_KEY" placeholder:"KEY" help:"API key of Temporal." when:"Temporal asks for a key, as Temporal Cloud does"`
}

// Log has the settings of a program's log.
type Log struct {
	LogLevel  string `env:"SLUICE_LOG_LEVEL" default:"${log_level=info}" enum:"debug,info,warn,error" help:"Least level that is logged: ${enum}; 'sluice up' has warn by default." when:"a fault is looked for, or the log is too long"`
	LogFormat string `env:"SLUICE_LOG_FORMAT" default:"text" enum:"text,json" help:"Format of the log: ${enum}." when:"a program reads the log"`
}

// Health has the address of a worker's health and metrics.
type Health struct {
	HealthListen string `env:"SLUICE_HEALTH_LISTEN" default:":8081" placeholder:"ADDR" help:"Address of /healthz, /readyz and /metrics; \"off\" for none." when:"the port is taken, or only some may ask"`
}

// ChosenPack selects the model pack.
type ChosenPack struct {
	ModelPack string `env:"SLUICE_MODEL_PACK" placeholder:"DIR" help:"Folder of the model pack, for 'sluice' also the name of an added one; when empty the one that 'sluice models use' chose, else the one shipped." when:"other models are wanted than those shipped"`
}

// Model selects the model pack, and how it runs.
type Model struct {
	ChosenPack

	ModelProvider  string `env:"SLUICE_MODEL_PROVIDER" default:"cpu" enum:"cpu,cuda" help:"Where graphs run: ${enum}." when:"there is a GPU"`
	ModelThreads   int    `env:"SLUICE_MODEL_THREADS" default:"0" help:"Threads of one graph's run; 0 is half of the cores." when:"the machine is the model server's alone, or has others to serve"`
	ONNXRuntimeLib string `name:"onnxruntime-lib" env:"SLUICE_ONNXRUNTIME_LIB" placeholder:"FILE" help:"The ONNX Runtime library; searched for when empty." when:"the library is where it is not found"`
}

// SecondEncoder has the settings of the encoder that encodes collections again in the background.
type SecondEncoder struct {
	SecondPack  string `env:"SLUICE_SECOND_PACK" placeholder:"DIR" help:"Folder of the model pack whose encoder encodes collections again in the background, for 'sluice' also its name: 'sluice up' starts a gpu-segmenter for it, and a gpu-segmenter that has this serves that encoder alone. None when empty." when:"searches by vectors are to be better than those of the first encoder, and the machine has time to spare"`
	SecondShare int    `env:"SLUICE_SECOND_SHARE" default:"25" help:"Per cent of the machine's processor time that the second encoder takes for what is encoded in the background; questions are encoded at once. While other programs use more than half of the machine it rests." when:"collections are to be encoded sooner, or other programs need the machine"`
}

// Hub has the address from which models are fetched.
type Hub struct {
	HubURL string `name:"hub-url" env:"SLUICE_HUB_URL" placeholder:"URL" help:"Address of a hub in Hugging Face's layout, for 'sluice models add hf:...'; nothing is fetched without it." when:"models are added from a hub"`
}

// Parse has the limits of parsing one file.
type Parse struct {
	ParseWorkers int           `env:"SLUICE_PARSE_WORKERS" default:"0" help:"Parser processes; 0 is one per core." when:"parsers take more memory, or cores, than the machine can spare"`
	ParseTimeout time.Duration `env:"SLUICE_PARSE_TIMEOUT" default:"60s" help:"Most processor time one file may take to parse; ten times that by the clock." when:"documents fail with 'timeout'"`
	ParseMemory  int64         `env:"SLUICE_PARSE_MEMORY_MB" default:"1024" help:"Most memory, in MB, that a parser process may take." when:"parsers die for want of memory, or together take too much"`
	ParsePages   int           `env:"SLUICE_PARSE_PAGES" default:"5000" help:"Most pages that one file may have." when:"documents fail with 'too_large'"`
	ParseText    int64         `env:"SLUICE_PARSE_TEXT_MB" default:"20" help:"Most text, in MB, that one file may give." when:"documents fail with 'too_large'"`

	ParseOCR       string        `name:"parse-ocr" env:"SLUICE_PARSE_OCR" default:"auto" enum:"auto,off" help:"Recognising the text of scanned pages: ${enum}; auto where tesseract is installed." when:"scans are not to be read, or their text comes from elsewhere"`
	ParseOffice    string        `name:"parse-office" env:"SLUICE_PARSE_OFFICE" default:"auto" enum:"auto,off" help:"Converting DOC, XLS and PPT, to read them: ${enum}; auto where LibreOffice is installed." when:"no other program than Sluice may read files"`
	ParseOCRPages  int           `name:"parse-ocr-pages" env:"SLUICE_PARSE_OCR_PAGES" default:"500" help:"Most pages of one document whose text is recognised." when:"a warning says that more pages need text recognition"`
	ParseOCRPixels int           `name:"parse-ocr-megapixels" env:"SLUICE_PARSE_OCR_MEGAPIXELS" default:"40" help:"Most pixels, in millions, of an image whose text is recognised." when:"pages or images fail with 'too_large'"`
	ParseOCRTime   time.Duration `name:"parse-ocr-time" env:"SLUICE_PARSE_OCR_TIME" default:"60s" help:"Longest processor time to recognise one page; on a machine that is busy ten times as long may pass." when:"a warning says that a page's text was not recognised in time"`
}

// Ingest has the settings of the ingestion of documents.
type Ingest struct {
	IngestBatches   int           `env:"SLUICE_INGEST_BATCHES" default:"0" help:"Batches that one worker holds open; 0 is one per core, from 2 to 4. Fewer are larger, and take less processor time." when:"the model server, or the database, has nothing to do while documents wait"`
	IngestBeside    int           `name:"ingest-batches-during-searches" env:"SLUICE_INGEST_BATCHES_DURING_SEARCHES" default:"0" help:"Batches that one worker holds open while somebody searches; 0 is half of the cores." when:"ingestion has machines and a database of its own to fill: then as many as ingest-batches"`
	IngestBatchSize int           `env:"SLUICE_INGEST_BATCH_SIZE" default:"64" help:"Versions in a batch at most; eight times as many while many wait." when:"a test wants small batches" group:"Ingestion, for tests and repair"`
	IngestLease     time.Duration `env:"SLUICE_INGEST_LEASE" default:"60s" help:"How long a version stays with a worker that has gone silent." when:"a test kills workers and cannot wait a minute" group:"Ingestion, for tests and repair"`
	IngestRequeue   time.Duration `env:"SLUICE_INGEST_REQUEUE" default:"30s" help:"How much older than its tenant's oldest message a queued version must be to be queued again." when:"a test loses messages, or a stream was lost and is to be made again faster" group:"Ingestion, for tests and repair"`
	IngestReconcile time.Duration `env:"SLUICE_INGEST_RECONCILE" default:"5s" help:"How often unfinished versions are looked for." when:"a test cannot wait" group:"Ingestion, for tests and repair"`
}

// Retention says how long questions, the ledger of language model calls, and the audit log are
// kept.
type Retention struct {
	KeepLLMCalls       int    `name:"keep-llm-calls" env:"SLUICE_KEEP_LLM_CALLS" default:"90" placeholder:"DAYS" help:"Days that language model calls of questions, and their replies, are kept in the ledger; 0 for ever." when:"rules on the keeping of data say so, or the ledger takes too much room"`
	KeepLLMSearchCalls int    `name:"keep-llm-search-calls" env:"SLUICE_KEEP_LLM_SEARCH_CALLS" default:"30" placeholder:"DAYS" help:"Days that those of searches are kept; 0 for ever." when:"rules on the keeping of data say so, or the ledger takes too much room"`
	KeepLLMDays        int    `name:"keep-llm-days" env:"SLUICE_KEEP_LLM_DAYS" default:"800" placeholder:"DAYS" help:"Days that the sums of each day are kept, at least 62, for budgets count this month's; 0 for ever." when:"costs of longer ago are to be shown, or not to be kept"`
	KeepQuestions      int    `name:"keep-questions" env:"SLUICE_KEEP_QUESTIONS" default:"365" placeholder:"DAYS" help:"Days that questions are kept, with their answers; those that are rated stay. At least as many as their calls in the ledger, as which the default counts where that keeps them longer; 0 for ever." when:"rules on the keeping of data say so"`
	KeepAudit          int    `name:"keep-audit" env:"SLUICE_KEEP_AUDIT" default:"400" placeholder:"DAYS" help:"Days that entries of the audit log are kept, at least 30; 0 for ever." when:"rules on the keeping of data say so"`
	KeepAuditReads     int    `name:"keep-audit-reads" env:"SLUICE_KEEP_AUDIT_READS" default:"400" placeholder:"DAYS" help:"Days that the audit log keeps who read what, at least 30; whole months go. 0 for ever." when:"rules on the keeping of data say so, or reads take too much room"`
	SendAudit          string `name:"send-audit" env:"SLUICE_SEND_AUDIT" placeholder:"URL" help:"Where the audit log is sent, too: file:///path, syslog://host:port (TCP) or syslogs://host:port (TLS); nowhere when empty." when:"another system is to keep, or watch, the audit log"`
	KeepRetrievals     int    `name:"keep-retrievals" env:"SLUICE_KEEP_RETRIEVALS" default:"90" placeholder:"DAYS" help:"Days that what was found for a question, which only answering it needs, is kept; 0 for ever." when:"rules on the keeping of data say so, or questions are explained later than that"`
}

// defaultQuestions is the default of KeepQuestions.
const defaultQuestions = 365

// QuestionDays returns for how many days questions are kept; 0: for ever. If KeepQuestions has its
// default and the ledger keeps calls longer, it is the ledger's time.
func (r Retention) QuestionDays() int {
	if r.KeepQuestions == defaultQuestions && (r.KeepLLMCalls == 0 || r.KeepLLMCalls > defaultQuestions) {
		return r.KeepLLMCalls
	}
	return r.KeepQuestions
}

// LLM has the settings of the language models, and of encoders and rerankers behind an API.
type LLM struct {
	LLMProvider  string        `name:"llm-provider" env:"SLUICE_LLM_PROVIDER" default:"auto" enum:"auto,openai,anthropic,extractive" help:"Who answers: ${enum}; auto is openai with its key or base URL, else anthropic with its key, else extractive." when:"several providers are set up, or none is to be asked"`
	LLMFallback  []string      `name:"llm-fallback" env:"SLUICE_LLM_FALLBACK" placeholder:"PROVIDER,..." help:"Who answers while that provider cannot, in this order, e.g. anthropic,extractive; nobody when empty." when:"an answer by another model is better than none"`
	LLMTimeout   time.Duration `name:"llm-timeout" env:"SLUICE_LLM_TIMEOUT" default:"60s" help:"Longest time of one call." when:"the model is slower, as on one's own machine"`
	LLMCalls     int           `name:"llm-calls" env:"SLUICE_LLM_CALLS" default:"32" help:"Calls that one gateway makes at once; more wait, and tenants alternate." when:"the provider allows more, or a server of one's own takes fewer"`
	LLMMaxTokens int           `name:"llm-max-tokens" env:"SLUICE_LLM_MAX_TOKENS" default:"1024" help:"Tokens of one reply at most; judgements and rewritten questions have smaller limits of their own." when:"answers are cut short, or cost too much"`

	LLMReasoningTokens int `name:"llm-reasoning-tokens" env:"SLUICE_LLM_REASONING_TOKENS" default:"0" help:"Tokens that a model may reason with besides, added to the limit of each reply." when:"the model reasons before it replies"`

	LLMCacheAge time.Duration `name:"llm-cache-age" env:"SLUICE_LLM_CACHE_AGE" default:"24h" help:"How long a language model's reply is kept for the same request of the same tenant; 0 for no cache." when:"equal questions must be answered anew, or replies may be kept for longer"`

	LLMBaseURL string   `name:"llm-base-url" env:"SLUICE_LLM_BASE_URL" placeholder:"URL" help:"Base URL of an OpenAI-compatible server (OpenAI, vLLM, Ollama)." when:"the server is not OpenAI's"`
	LLMAPIKey  string   `name:"llm-api-key" env:"SLUICE_LLM_API_KEY" placeholder:"KEY" help:"Its key." when:"the provider asks for a key"`
	LLMModel   string   `name:"llm-model" env:"SLUICE_LLM_MODEL" default:"gpt-4o-mini" help:"Its model." when:"another model is wanted"`
	LLMFormat  string   `name:"llm-format" env:"SLUICE_LLM_FORMAT" default:"auto" enum:"auto,json_schema,json_object,text" help:"How its replies are constrained to JSON: ${enum}; json_schema sends the form of each reply, text nothing, auto takes the first of these that the server does not refuse." when:"a server takes json_schema and answers worse with it"`
	LLMPrice   LLMPrice `name:"llm-price" env:"SLUICE_LLM_PRICE" default:"0.15/0.60" placeholder:"IN/OUT" help:"US dollars per million of its input and output tokens; set it together with the model." when:"another model is wanted, or its price has changed"`

	EmbedURL   string  `name:"embed-url" env:"SLUICE_EMBED_URL" placeholder:"URL" help:"Base URL of a server with OpenAI's embeddings, for model packs whose encoder is behind an API; OpenAI's when only the key is set." when:"the pack in use has such an encoder"`
	EmbedKey   string  `name:"embed-key" env:"SLUICE_EMBED_KEY" placeholder:"KEY" help:"Its key." when:"the server asks for a key"`
	EmbedPrice float64 `name:"embed-price" env:"SLUICE_EMBED_PRICE" default:"0.02" placeholder:"DOLLARS" help:"US dollars per million of its tokens." when:"another model than text-embedding-3-small encodes, or a server of one's own, which costs 0"`

	RerankURL   string  `name:"rerank-url" env:"SLUICE_RERANK_URL" placeholder:"URL" help:"Base URL of a server that reranks, for model packs whose reranker is behind an API; Cohere's when only the key is set." when:"the pack in use has such a reranker"`
	RerankKey   string  `name:"rerank-key" env:"SLUICE_RERANK_KEY" placeholder:"KEY" help:"Its key." when:"the server asks for a key"`
	RerankPrice float64 `name:"rerank-price" env:"SLUICE_RERANK_PRICE" default:"0.02" placeholder:"DOLLARS" help:"US dollars per million of its tokens, the question counted with each text." when:"the server costs another price, or is one of one's own, which costs 0"`

	AnthropicBaseURL string   `name:"llm-anthropic-base-url" env:"SLUICE_LLM_ANTHROPIC_BASE_URL" placeholder:"URL" help:"Address of Anthropic's Messages API, when it is another one than https://api.anthropic.com." when:"requests go through a proxy"`
	AnthropicAPIKey  string   `name:"llm-anthropic-api-key" env:"SLUICE_LLM_ANTHROPIC_API_KEY" placeholder:"KEY" help:"Its key." when:"Anthropic is to answer"`
	AnthropicModel   string   `name:"llm-anthropic-model" env:"SLUICE_LLM_ANTHROPIC_MODEL" default:"claude-haiku-4-5" help:"Its model." when:"another model is wanted"`
	AnthropicPrice   LLMPrice `name:"llm-anthropic-price" env:"SLUICE_LLM_ANTHROPIC_PRICE" default:"1.00/5.00" placeholder:"IN/OUT" help:"US dollars per million of its input and output tokens; set it together with the model." when:"another model is wanted, or its price has changed"`
}

// LLMPrice is the price of a provider's tokens, in US dollars per million.
type LLMPrice struct{ Input, Output float64 }

// UnmarshalText parses "IN/OUT".
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

// Plans has the folder of an installation's own retrieval plans. Query workers and the API must
// have the same.
type Plans struct {
	Plans string `env:"SLUICE_PLANS" placeholder:"DIR" help:"Folder with more retrieval plans, a YAML file each, named after its plan; read at the start, also by serve." when:"one's own plans are to be there for all tenants"`
}

// Answering has the settings of answering questions.
type Answering struct {
	Plans
	QueryConcurrency int           `env:"SLUICE_QUERY_CONCURRENCY" default:"0" help:"Searches that one worker runs at once; 0 is twice the cores, and at least 4. More make none faster, and all slower." when:"other programs share the cores"`
	QueryQuestions   int           `name:"question-concurrency" env:"SLUICE_QUESTION_CONCURRENCY" default:"16" help:"Questions that one worker answers at once, and as many of jobs." when:"the language model takes more at once, or fewer"`
	QueryTenant      int           `name:"query-tenant-concurrency" env:"SLUICE_QUERY_TENANT_CONCURRENCY" default:"0" help:"Searches of one tenant that one worker runs at once, on average, while other tenants search too; 0 is half of the cores." when:"one tenant may take more of a worker, or less"`
	QueryTimeout     time.Duration `env:"SLUICE_QUERY_TIMEOUT" default:"30s" help:"Longest time of a search, waiting for its turn included." when:"plans of searches ask a slow language model, or callers give up sooner"`
	LexicalCache     int64         `name:"lexical-cache-mb" env:"SLUICE_LEXICAL_CACHE_MB" default:"0" help:"Memory, in MB, that one worker keeps of lexical indexes; 0 is a sixteenth of what it may use, and at least 256." when:"'sluice.lexical.cache.evictions' grows, or memory is short"`
	VectorCache      int64         `name:"vector-cache-mb" env:"SLUICE_VECTOR_CACHE_MB" default:"256" help:"Memory, in MB, that one worker keeps of vectors of collections without an index of their own." when:"searches read the same vectors again and again, or memory is short"`
	ShadowShare      float64       `env:"SLUICE_SHADOW_SHARE" default:"0.05" help:"Share of answered questions, of plans that may skip retrieval, that are asked without it, too, to learn what the language model knows; 0: none." when:"these calls of the language model cost too much, or plans are to learn faster"`
	SlowSearch       time.Duration `env:"SLUICE_SLOW_SEARCH" default:"1s" help:"Searches that take as long are kept as slow ones, for their tenant's admins; 0 keeps none." when:"most searches are slow, or their text must not be kept: 0"`
	QuestionLease    time.Duration `env:"SLUICE_QUESTION_LEASE" default:"60s" help:"How long an async question stays with a worker that has gone silent." when:"a test kills workers and cannot wait a minute" group:"Questions, for tests and repair"`
}

// LexicalCacheBytes returns the size of the cache of lexical indexes.
func (a Answering) LexicalCacheBytes() int64 {
	if a.LexicalCache == 0 {
		return memory.Share(16, 256<<20, math.MaxInt64)
	}
	return a.LexicalCache << 20
}

// Webhooks has the settings of webhooks.
type Webhooks struct {
	WebhookAllowPrivate []string `env:"SLUICE_WEBHOOK_ALLOW_PRIVATE" sep:"," placeholder:"CIDR" help:"Ranges of addresses, as 10.1.0.0/16, that webhooks may be sent to though they are not public; none when empty." when:"receivers are in one's own network"`
}

// SourceKeys are the keys that encrypt the secrets of sources.
type SourceKeys struct {
	SourcesKeyFile string `name:"sources-key-file" env:"SLUICE_SOURCES_KEY_FILE" placeholder:"FILE" help:"Keys that secrets of sources are encrypted with: 32 random bytes in base64 on each line, of which the first encrypts and all decrypt; the same for 'sluice serve' and source-worker. When empty 'sluice up' makes one in its data directory, and elsewhere sources with secrets are refused." when:"programs run apart, or the key is kept elsewhere"`
	SourcesKey     string `name:"sources-key" env:"SLUICE_SOURCES_KEY" placeholder:"KEYS" help:"The same keys in place of the file, separated by commas." when:"keys come from the environment"`
}

// Synchronisation has the settings of the synchronisation of sources.
type Synchronisation struct {
	SourceRoots   []string      `name:"source-roots" env:"SLUICE_SOURCE_ROOTS" sep:"," placeholder:"DIR,..." help:"Folders of the worker's machine that sources of the driver 'folder', of every tenant, may read with what is below them; none when empty." when:"collections are to follow folders"`
	SourcePrivate bool          `name:"source-allow-private" env:"SLUICE_SOURCE_ALLOW_PRIVATE" help:"Sources may connect to loopback, link-local and private addresses." when:"places are in one's own network, and every tenant may reach it"`
	SourceFetches int           `name:"source-fetches" env:"SLUICE_SOURCE_FETCHES" default:"8" help:"Items that one synchronisation fetches at once." when:"places are far away, or ask for fewer"`
	SourceRuns    int           `name:"source-runs" env:"SLUICE_SOURCE_RUNS" default:"16" help:"Synchronisations that one worker works on at once." when:"many sources wait for their turn"`
	SourceItem    int64         `name:"source-item-mb" env:"SLUICE_SOURCE_ITEM_MB" default:"100" help:"Largest item, in MB, that is fetched; a source may have a smaller limit of its own." when:"files are larger, or must not be"`
	SourceTick    time.Duration `name:"source-tick" env:"SLUICE_SOURCE_TICK" default:"2s" help:"How often sources that are due are looked for." when:"a test cannot wait" group:"Sources, for tests and repair"`
	SourceLease   time.Duration `name:"source-lease" env:"SLUICE_SOURCE_LEASE" default:"60s" help:"How long a synchronisation stays with a worker that has gone silent." when:"a test kills workers and cannot wait a minute" group:"Sources, for tests and repair"`
}

// Public has the public address of this system.
type Public struct {
	PublicURL string `name:"public-url" env:"SLUICE_PUBLIC_URL" placeholder:"URL" help:"Where tenants reach the API, for links in webhooks, which are paths when empty, and for the provider of sign-ins, which sends people back there; when empty to where their browser found the server." when:"tenants get webhooks, or people sign in at a provider"`
}

// OIDC has the settings of the OpenID Connect provider at which people sign in.
type OIDC struct {
	OIDCIssuer           string        `name:"oidc-issuer" env:"SLUICE_OIDC_ISSUER" placeholder:"URL" help:"Issuer of the provider of OpenID Connect, as https://login.example.com/realm; without it people sign in with API keys alone." when:"people are to sign in at a provider"`
	OIDCName             string        `name:"oidc-name" env:"SLUICE_OIDC_NAME" placeholder:"NAME" help:"What people call the provider; the issuer's host when empty." when:"people don't know the provider by its host"`
	OIDCClientID         string        `name:"oidc-client-id" env:"SLUICE_OIDC_CLIENT_ID" placeholder:"ID" help:"The client that the provider knows this server by." when:"people are to sign in at a provider"`
	OIDCClientSecret     string        `name:"oidc-client-secret" env:"SLUICE_OIDC_CLIENT_SECRET" placeholder:"SECRET" help:"Its secret; a public client has none." when:"the client has a secret"`
	OIDCClientSecretFile string        `name:"oidc-client-secret-file" env:"SLUICE_OIDC_CLIENT_SECRET_FILE" placeholder:"FILE" help:"File with that secret, in place of it; read at the start." when:"secrets are not to be in the environment"`
	OIDCScopes           []string      `name:"oidc-scopes" env:"SLUICE_OIDC_SCOPES" sep:"," default:"profile" placeholder:"SCOPE,..." help:"Scopes that are asked for in addition to openid." when:"the provider gives groups for a scope of their own"`
	OIDCGroupsClaim      string        `name:"oidc-groups-claim" env:"SLUICE_OIDC_GROUPS_CLAIM" default:"groups" placeholder:"NAME" help:"Claim of the ID token, or else of the user info, that lists a person's groups." when:"the provider calls it something else"`
	OIDCAudience         string        `name:"oidc-audience" env:"SLUICE_OIDC_AUDIENCE" placeholder:"AUDIENCE" help:"Audience of the provider's access tokens that are taken in place of API keys, as https://sluice.example.com/mcp; none are taken when empty." when:"assistants are to sign people in by OAuth"`
	OIDCAccess           string        `name:"oidc-access" env:"SLUICE_OIDC_ACCESS" placeholder:"FILE" help:"YAML file that says which groups have which role in which tenant; read again for every sign-in." when:"people are to sign in at a provider"`
	OIDCSession          time.Duration `name:"oidc-session" env:"SLUICE_OIDC_SESSION" default:"12h" help:"How long a session lasts, at least a minute and at most 720h; people then sign in again, and get what they may by then." when:"what is taken from people at the provider is to hold sooner"`
}

// HTTP has the settings of the API.
type HTTP struct {
	Listen         string        `env:"SLUICE_LISTEN" default:"127.0.0.1:7700" placeholder:"ADDR" help:"Address of the API." when:"others than this machine are to reach the API, or the port is taken"`
	APITLSCert     string        `name:"api-tls-cert" env:"SLUICE_API_TLS_CERT" placeholder:"FILE" help:"Certificate of the API, PEM, with those that lead to its authority; the API speaks HTTPS when it is set. Replaced files are read without a restart." when:"no proxy speaks TLS for the API"`
	APITLSKey      string        `name:"api-tls-key" env:"SLUICE_API_TLS_KEY" placeholder:"FILE" help:"Its key, PEM." when:"no proxy speaks TLS for the API"`
	MetricsListen  string        `env:"SLUICE_METRICS_LISTEN" default:"off" placeholder:"ADDR" help:"Address of /metrics, apart from the API's, as 127.0.0.1:9464; \"off\" for none." when:"metrics are collected"`
	MaxUpload      int64         `name:"max-upload-mb" env:"SLUICE_MAX_UPLOAD_MB" default:"100" help:"Largest file, in MB, that is taken." when:"files are larger, or must not be"`
	AskTimeout     time.Duration `env:"SLUICE_ASK_TIMEOUT" default:"2m" help:"Longest time of a synchronous question." when:"the language model is slow: then with llm-timeout"`
	TenantOpen     int           `name:"tenant-searches" env:"SLUICE_TENANT_SEARCHES" default:"32" help:"Searches and synchronous questions of one tenant that one API process holds open; more are refused with 429." when:"a tenant may ask more at once, or less"`
	KeyRequests    int           `name:"key-requests" env:"SLUICE_KEY_REQUESTS" default:"0" placeholder:"N" help:"Requests a minute that one API process takes of one key, after 10 silent seconds a sixth of them at once; more are refused with 429; 0 is no limit." when:"a program may ask too often"`
	TenantRequests int           `name:"tenant-requests" env:"SLUICE_TENANT_REQUESTS" default:"0" placeholder:"N" help:"The same of one tenant, all its keys together; 0 is no limit." when:"a tenant may ask too often"`

	AuditReads     string   `name:"audit-reads" env:"SLUICE_AUDIT_READS" default:"on" enum:"on,off" help:"Whether the audit log has who read what, and who was refused: ${enum}." when:"nobody is to know what others read"`
	TrustedProxies []string `name:"trusted-proxies" env:"SLUICE_TRUSTED_PROXIES" sep:"," placeholder:"CIDR" help:"Ranges of addresses, as 10.1.0.0/16, of proxies whose X-Forwarded-For is believed; nobody's when empty." when:"the API is behind a proxy"`

	TraceURL string `name:"trace-url" env:"SLUICE_TRACE_URL" placeholder:"URL" help:"Where the traces' own pages are, with {trace} for a trace's id, as https://jaeger.example/trace/{trace}; the back office links to them." when:"traces are kept"`

	SessionSecret string `env:"SLUICE_SESSION_SECRET" placeholder:"SECRET" help:"What browsers' sessions are sealed with, at least 32 bytes, the same for all API processes; empty: a new one at every start." when:"several processes serve the back office, or sign-ins are to outlive a restart"`
}

// Receipts has the keys that sign receipts of answers.
type Receipts struct {
	ReceiptKey string `name:"receipt-key" env:"SLUICE_RECEIPT_KEY" placeholder:"FILE" help:"Private keys that sign receipts of answers: 32 random bytes in base64 on each line, of which the first signs; the same for all API processes. When empty 'sluice up' makes one in its data directory, and 'sluice serve' signs no receipts." when:"programs run apart, or the key is kept elsewhere"`
}

// Disk has the settings of the disk of 'sluice up'.
type Disk struct {
	KeepFree int64 `env:"SLUICE_KEEP_FREE" default:"512" placeholder:"MB" help:"Room of the data's disk that uploads leave, in MB, or a twentieth of the disk where that is less: below it they are refused. 0: none." when:"others share the disk, or it is small"`
}

// DataDirectory is the directory in which 'sluice up' stores everything, and in which other
// commands find its key and added packs.
type DataDirectory struct {
	Data string `env:"SLUICE_DATA" placeholder:"DIR" help:"Data directory of 'sluice up'; 'data' in SLUICE_HOME (/var/lib/sluice for root, else ~/.local/share/sluice) when empty." when:"the data are to be elsewhere"`
}

// LocalPostgres has the settings of the Postgres that 'sluice up' starts.
type LocalPostgres struct {
	PostgresBuffers int64 `name:"postgres-buffers-mb" env:"SLUICE_POSTGRES_BUFFERS_MB" default:"0" help:"Memory, in MB, for the cache of the Postgres that 'sluice up' starts (shared_buffers); 0 is a quarter of what it may use, from 128 to 8192." when:"other programs need the memory, or Postgres reads from disk"`
}

// Client has the settings with which the command-line tool reaches a server.
type Client struct {
	URL      string `name:"url" env:"SLUICE_URL" placeholder:"URL" help:"The server; the one that 'sluice up' started when empty." when:"the server is elsewhere"`
	APITLSCA string `name:"api-tls-ca" env:"SLUICE_API_TLS_CA" placeholder:"FILE" help:"Authorities, PEM, by which the server's certificate is checked; the system's when empty." when:"the server has a certificate of an authority of one's own"`
	APIKey   string `name:"api-key" env:"SLUICE_API_KEY" placeholder:"KEY" help:"The API key; the one that 'sluice up' printed when empty." when:"the server is elsewhere, or a key of fewer rights is enough"`
	DataDirectory
}

// Require returns an error for the first of the named settings that is empty. A setting is the name
// of its variable and its value.
func Require(settings ...[2]string) error {
	for _, s := range settings {
		if s[1] == "" {
			return schema.Invalid(s[0], "must be set, by its flag, in the environment or in sluice.yaml")
		}
	}
	return nil
}

// Connections are the connections that every worker needs. kong validates them, so a program that
// does not need all of them (sluice up) embeds the parts instead.
type Connections struct {
	Database
	NATS
	Temporal
}

// Validate returns an error for the first missing connection.
func (c Connections) Validate() error {
	return Require([2]string{"SLUICE_DATABASE_URL", c.DatabaseURL}, [2]string{"SLUICE_NATS_URL", c.NATSURL},
		[2]string{"SLUICE_TEMPORAL_ADDRESS", c.TemporalAddress})
}

// IngestWorker has the settings of ingest-worker.
type IngestWorker struct {
	Connections
	DatabaseVectors
	Streams
	Blobs
	Ingest
	Retention
	Parse
	Health
	Log
}

// QueryWorker has the settings of query-worker.
type QueryWorker struct {
	Connections
	DatabaseReplica
	Signatures
	Streams
	Answering
	Webhooks
	Public
	Health
	Log
}

// SourceWorker has the settings of source-worker.
type SourceWorker struct {
	Connections
	Blobs
	Trust
	Synchronisation
	SourceKeys
	Health
	Log
}

// LLMGateway has the settings of llm-gateway.
type LLMGateway struct {
	Database
	NATS
	Trust
	LLM
	Health
	Log
}

// GPUSegmenter has the settings of gpu-segmenter.
type GPUSegmenter struct {
	NATS
	Model
	SecondEncoder
	Health
	Log
}
