// Package s3 replaces github.com/aws/aws-sdk-go-v2/service/s3, with which the Temporal server can
// archive histories in Amazon S3. A server for one machine archives none: every call fails.
package s3

import (
	"context"
	"errors"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

var errAbsent = errors.New("this Temporal server is built without Amazon S3")

// The types that the server uses.
type (
	Client  struct{}
	Options struct {
		BaseEndpoint *string
		UsePathStyle bool
	}
	HeadBucketInput  struct{ Bucket *string }
	HeadBucketOutput struct{}
	HeadObjectInput  struct{ Bucket, Key *string }
	HeadObjectOutput struct{}
	PutObjectInput   struct {
		Bucket, Key *string
		Body        io.Reader
	}
	PutObjectOutput    struct{}
	GetObjectInput     struct{ Bucket, Key *string }
	GetObjectOutput    struct{ Body io.ReadCloser }
	ListObjectsV2Input struct {
		Bucket, Prefix, Delimiter, ContinuationToken *string
		MaxKeys                                      *int32
	}
	ListObjectsV2Output struct {
		CommonPrefixes        []types.CommonPrefix
		Contents              []types.Object
		IsTruncated           *bool
		NextContinuationToken *string
	}
)

// NewFromConfig returns a client whose calls fail.
func NewFromConfig(aws.Config, ...func(*Options)) *Client { return &Client{} }

// All of these fail.

func (*Client) HeadBucket(context.Context, *HeadBucketInput, ...func(*Options)) (*HeadBucketOutput, error) {
	return nil, errAbsent
}

func (*Client) HeadObject(context.Context, *HeadObjectInput, ...func(*Options)) (*HeadObjectOutput, error) {
	return nil, errAbsent
}

func (*Client) PutObject(context.Context, *PutObjectInput, ...func(*Options)) (*PutObjectOutput, error) {
	return nil, errAbsent
}

func (*Client) GetObject(context.Context, *GetObjectInput, ...func(*Options)) (*GetObjectOutput, error) {
	return nil, errAbsent
}

func (*Client) ListObjectsV2(context.Context, *ListObjectsV2Input, ...func(*Options)) (*ListObjectsV2Output, error) {
	return nil, errAbsent
}
