package program

import (
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/objects"
	"github.com/sluice-rag/sluice/schema"
)

// Bucket returns the bucket that the settings describe; nil: they describe none.
func Bucket(b config.Blobs) (*objects.Bucket, error) {
	if b.S3Endpoint == "" {
		if b.Blobs == "s3" {
			return nil, schema.Invalid("SLUICE_S3_ENDPOINT", "must be set with SLUICE_BLOBS=s3")
		}
		return nil, nil
	}
	return objects.New(objects.Options{
		Endpoint: b.S3Endpoint, Bucket: b.S3Bucket, Prefix: b.S3Prefix, Region: b.S3Region, Addressing: b.S3Addressing,
		AccessKey: b.S3AccessKey, SecretKey: b.S3SecretKey, Credentials: b.S3Credentials, CA: b.S3CA,
	})
}

// WithBlobs adds to the options of a store where the settings say that bytes of documents are kept.
func WithBlobs(o store.Options, b config.Blobs) (store.Options, error) {
	bucket, err := Bucket(b)
	if err != nil || bucket == nil { // a nil *objects.Bucket in the interface would not be nil
		return o, err
	}
	o.Objects, o.NewInObjects = bucket, b.Blobs == "s3"
	return o, nil
}
