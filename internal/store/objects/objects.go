// Package objects keeps bytes of documents in a bucket of an S3 service.
package objects

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// Options say where a bucket is, and with which credentials it is accessed.
type Options struct {
	// Endpoint is the service's address: http or https, host and port.
	Endpoint string
	Bucket   string
	// Prefix is the beginning of all objects' names, such as sluice/; it may be empty.
	Prefix string
	Region string // empty: asks the service
	// Addressing is auto, path (the bucket is in the path) or host (the bucket is in the host
	// name).
	Addressing string

	AccessKey, SecretKey string
	// Credentials is a file with the access key in its first line and the secret key in its second,
	// used in place of AccessKey and SecretKey. It is read again every minute.
	Credentials string
	// CA is a PEM file of authorities for the service's certificate; empty means the system's
	// authorities.
	CA string
}

const (
	// maxTries is the number of attempts of one request. Callers retry later.
	maxTries = 3
	// rereadEvery is how long the contents of a file of credentials are used.
	rereadEvery = time.Minute
	// stallTimeout is how long a service may take to begin a response.
	stallTimeout = 30 * time.Second
)

// Bucket is a bucket of an S3 service. It is safe for concurrent use.
type Bucket struct {
	client  minio.Core
	options Options
	at      string // the endpoint's address, without anything secret
}

var _ store.Objects = (*Bucket)(nil)

// New returns the bucket that the options name, without connecting to it. Errors name the setting.
func New(o Options) (*Bucket, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return nil, schema.Invalid("SLUICE_S3_ENDPOINT", "needs to be an http or https address of a host, as https://s3.eu-central-1.amazonaws.com, and nothing else")
	}
	if o.Bucket == "" {
		return nil, schema.Invalid("SLUICE_S3_BUCKET", "must be set with SLUICE_S3_ENDPOINT")
	}
	if strings.HasPrefix(o.Prefix, "/") || strings.Contains(o.Prefix, "..") || strings.Contains(o.Prefix, "//") {
		return nil, schema.Invalid("SLUICE_S3_PREFIX", "%q: needs to be names with slashes between them, as sluice/documents/", o.Prefix)
	}
	if o.Prefix != "" && !strings.HasSuffix(o.Prefix, "/") {
		o.Prefix += "/"
	}
	keys, err := keysOf(o)
	if err != nil {
		return nil, err
	}
	transport, err := transport(o.CA)
	if err != nil {
		return nil, err
	}
	lookup, known := map[string]minio.BucketLookupType{
		"": minio.BucketLookupAuto, "auto": minio.BucketLookupAuto, "path": minio.BucketLookupPath, "host": minio.BucketLookupDNS,
	}[o.Addressing]
	if !known {
		return nil, schema.Invalid("SLUICE_S3_ADDRESSING", "%q is none of auto, path, host", o.Addressing)
	}
	client, err := minio.NewCore(u.Host, &minio.Options{
		Creds: keys, Secure: u.Scheme == "https", Transport: transport, Region: o.Region, BucketLookup: lookup, MaxRetries: maxTries,
	})
	if err != nil {
		return nil, schema.Invalid("SLUICE_S3_ENDPOINT", "%v", err)
	}
	return &Bucket{client: *client, options: o, at: u.Scheme + "://" + u.Host}, nil
}

func transport(ca string) (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's
	t.MaxIdleConnsPerHost = 16
	t.ResponseHeaderTimeout = stallTimeout
	t.DisableCompression = true // the bytes as stored
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return t, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("authorities of S3 (SLUICE_S3_CA): %w", err)
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
		return nil, schema.Invalid("SLUICE_S3_CA", "%s has no certificate in PEM", ca)
	}
	return t, nil
}

// keysOf returns the credentials of the settings.
func keysOf(o Options) (*credentials.Credentials, error) {
	switch {
	case o.Credentials != "" && (o.AccessKey != "" || o.SecretKey != ""):
		return nil, schema.Invalid("SLUICE_S3_CREDENTIALS", "is in place of SLUICE_S3_ACCESS_KEY and SLUICE_S3_SECRET_KEY; set the one or the others")
	case o.Credentials != "":
		file := &keyFile{path: o.Credentials}
		if _, err := file.Retrieve(); err != nil {
			return nil, err
		}
		return credentials.New(file), nil
	case o.AccessKey == "" || o.SecretKey == "":
		return nil, schema.Invalid("SLUICE_S3_ACCESS_KEY", "and SLUICE_S3_SECRET_KEY, or SLUICE_S3_CREDENTIALS, must be set with SLUICE_S3_ENDPOINT")
	}
	return credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), nil
}

// keyFile reads keys from a file, again every rereadEvery in case they were replaced.
type keyFile struct {
	path string
	credentials.Expiry
}

// Retrieve implements credentials.Provider.
func (f *keyFile) Retrieve() (credentials.Value, error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return credentials.Value{}, fmt.Errorf("keys of S3 (SLUICE_S3_CREDENTIALS): %w", err)
	}
	lines := strings.Fields(string(text))
	if len(lines) != 2 {
		return credentials.Value{}, schema.Invalid("SLUICE_S3_CREDENTIALS", "%s needs two lines: the access key and the secret key", f.path)
	}
	f.SetExpiration(time.Now().Add(rereadEvery), 0)
	return credentials.Value{AccessKeyID: lines[0], SecretAccessKey: lines[1], SignerType: credentials.SignatureV4}, nil
}

// RetrieveWithCredContext implements credentials.Provider.
func (f *keyFile) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return f.Retrieve()
}

func (b *Bucket) key(o store.Object) string { return b.options.Prefix + o.Key() }

// Where implements store.Objects.
func (b *Bucket) Where(o store.Object) string {
	return fmt.Sprintf("object %s in bucket %s", b.key(o), b.options.Bucket)
}

// Put implements store.Objects. It sends the length and the SHA-256 before the bytes, and the
// service refuses bytes that do not match.
func (b *Bucket) Put(ctx context.Context, o store.Object, r io.Reader) error {
	_, err := b.client.PutObject(ctx, b.options.Bucket, b.key(o), r, o.Bytes, "", hex.EncodeToString(o.SHA256),
		// Without this, the signature of an http request uses other hashes than ours.
		minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true})
	return b.problem(ctx, "write "+b.Where(o), err)
}

// Open implements store.Objects.
func (b *Bucket) Open(ctx context.Context, o store.Object, from int64) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	if from > 0 {
		if err := options.SetRange(from, 0); err != nil {
			return nil, fmt.Errorf("read %s from byte %d: %w", b.Where(o), from, err)
		}
	}
	body, info, _, err := b.client.GetObject(ctx, b.options.Bucket, b.key(o), options)
	if err != nil {
		return nil, b.problem(ctx, "read "+b.Where(o), err)
	}
	if have := from + info.Size; have != o.Bytes {
		return nil, errors.Join(&store.DamagedError{Where: b.Where(o), Problem: fmt.Sprintf("is damaged: it has %d bytes in place of %d", have, o.Bytes)}, body.Close())
	}
	return body, nil
}

// Delete implements store.Objects.
func (b *Bucket) Delete(ctx context.Context, o store.Object) error {
	err := b.client.RemoveObject(ctx, b.options.Bucket, b.key(o), minio.RemoveObjectOptions{})
	if err = b.problem(ctx, "delete "+b.Where(o), err); errors.Is(err, schema.ErrNotFound) {
		return nil
	}
	return err
}

// Check implements store.Objects: it lists at most one object.
func (b *Bucket) Check(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	for o := range b.client.Client.ListObjects(ctx, b.options.Bucket, minio.ListObjectsOptions{Prefix: b.options.Prefix, MaxKeys: 1}) {
		err = o.Err
		break
	}
	return b.problem(ctx, "list bucket "+b.options.Bucket, err)
}

// Try writes an object, reads it and deletes it, to check that the keys have all necessary rights.
func (b *Bucket) Try(ctx context.Context) error {
	name := b.options.Prefix + "doctor/" + rand.Text()
	text := "sluice doctor made this, and deletes it"
	if err := b.Check(ctx); err != nil {
		return err
	}
	_, err := b.client.PutObject(ctx, b.options.Bucket, name, strings.NewReader(text), int64(len(text)), "", "", minio.PutObjectOptions{})
	if err != nil {
		return b.problem(ctx, "write an object to bucket "+b.options.Bucket, err)
	}
	var read []byte
	body, _, _, err := b.client.GetObject(ctx, b.options.Bucket, name, minio.GetObjectOptions{})
	if err == nil {
		read, err = io.ReadAll(body)
		err = errors.Join(err, body.Close())
	}
	if err = b.problem(ctx, "read an object of bucket "+b.options.Bucket, err); err == nil && string(read) != text {
		err = unavailable("bucket %s at %s gave %d other bytes than it was given", b.options.Bucket, b.at, len(read))
	}
	removed := b.client.RemoveObject(ctx, b.options.Bucket, name, minio.RemoveObjectOptions{})
	return errors.Join(err, b.problem(ctx, "delete an object of bucket "+b.options.Bucket, removed))
}

// problem adds a meaning and a remedy to an error. All errors but a missing object are a
// store.ObjectsUnavailableError: once the service or its settings are repaired, nothing needs to be
// uploaded again.
func (b *Bucket) problem(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	var response minio.ErrorResponse
	if !errors.As(err, &response) {
		return unavailable("%s: no S3 service answers at %s (SLUICE_S3_ENDPOINT): %v", doing, b.at, err)
	}
	remedy := "the service failed; it is asked again later"
	switch response.Code {
	case minio.NoSuchKey:
		return fmt.Errorf("%s: there is none: %w", doing, schema.ErrNotFound)
	case minio.NoSuchBucket:
		remedy = fmt.Sprintf("there is no bucket %q; make it, or set SLUICE_S3_BUCKET", b.options.Bucket)
	case minio.InvalidAccessKeyID, minio.SignatureDoesNotMatch, "InvalidAccessKey", "ExpiredToken", "InvalidToken":
		remedy = "it refuses the keys (SLUICE_S3_ACCESS_KEY, SLUICE_S3_SECRET_KEY, SLUICE_S3_CREDENTIALS)"
	case minio.AccessDenied:
		remedy = "the keys may not do that; they need to list the bucket, and to get, put and delete objects in it"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "InvalidRegion":
		remedy = "the bucket is in another region (SLUICE_S3_REGION)"
	}
	return unavailable("%s: S3 at %s says %s (%s): %s", doing, b.at, response.Code, response.Message, remedy)
}

func unavailable(format string, args ...any) error {
	return &store.ObjectsUnavailableError{Problem: fmt.Sprintf(format, args...)}
}
