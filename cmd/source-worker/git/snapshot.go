package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// snapshot is one commit without its history, or two, in a temporary folder.
type snapshot struct {
	commit plumbing.Hash
	tree   *object.Tree // of the commit
	before *object.Tree // of the earlier commit, if one was fetched
	dir    string
	store  *filesystem.Storage
}

// remove removes the folder.
func (s *snapshot) remove() error { return errors.Join(s.store.Close(), os.RemoveAll(s.dir)) }

// fetchCommit fetches the commit that the branch is on, and older commits by their hashes.
func (r *repository) fetchCommit(ctx context.Context, commit plumbing.Hash, older ...plumbing.Hash) (_ *snapshot, err error) {
	dir, err := os.MkdirTemp("", "sluice-git-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a repository: %w", err)
	}
	files := &limitedFS{Filesystem: osfs.New(dir, osfs.WithBoundOS()), remaining: new(atomic.Int64)}
	files.remaining.Store(r.maxBytes)
	s := &snapshot{commit: commit, dir: dir, store: filesystem.NewStorage(files, cache.NewObjectLRU(32*cache.MiByte))}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	repo, err := gogit.Init(s.store, nil)
	if err != nil {
		return nil, fmt.Errorf("make a repository: %w", err)
	}
	remote, err := repo.CreateRemoteAnonymous(&config.RemoteConfig{Name: "anonymous", URLs: []string{r.url}})
	if err != nil {
		return nil, err
	}
	from := plumbing.HEAD
	if r.branch != "" {
		from = plumbing.NewBranchReferenceName(r.branch)
	}
	specs := []config.RefSpec{config.RefSpec(fmt.Sprintf("+%s:refs/heads/now", from))}
	for i, hash := range older {
		specs = append(specs, config.RefSpec(fmt.Sprintf("%s:refs/heads/before-%d", hash, i)))
	}
	err = remote.FetchContext(ctx, &gogit.FetchOptions{RemoteName: "anonymous", RefSpecs: specs, Depth: 1, Auth: r.auth,
		Tags: gogit.NoTags, ProxyOptions: r.proxyOptions()})
	if files.remaining.Load() < 0 {
		return nil, &tooLargeError{megabytes: r.maxBytes >> 20}
	}
	if err != nil {
		return nil, r.failure(ctx, err)
	}
	now, err := repo.Reference("refs/heads/now", true)
	if err != nil {
		return nil, err
	}
	s.commit = now.Hash() // the branch may have moved meanwhile
	if s.tree, err = tree(repo, s.commit); err != nil {
		return nil, err
	}
	for _, hash := range older {
		if s.before, err = tree(repo, hash); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func tree(repo *gogit.Repository, hash plumbing.Hash) (*object.Tree, error) {
	commit, err := repo.CommitObject(hash)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", hash, err)
	}
	return commit.Tree()
}

// tooLargeError is the error of a repository that is larger than the settings allow.
type tooLargeError struct{ megabytes int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the repository has more than %d MB; raise max_megabytes to allow more", e.megabytes)
}

// limitedFS is a file system to which only a limited number of bytes can be written.
type limitedFS struct {
	billy.Filesystem
	remaining *atomic.Int64
}

// Create implements billy.Basic.
func (b *limitedFS) Create(name string) (billy.File, error) { return b.file(b.Filesystem.Create(name)) }

// OpenFile implements billy.Basic.
func (b *limitedFS) OpenFile(name string, flag int, perm os.FileMode) (billy.File, error) {
	return b.file(b.Filesystem.OpenFile(name, flag, perm))
}

// TempFile implements billy.TempFile.
func (b *limitedFS) TempFile(dir, prefix string) (billy.File, error) {
	return b.file(b.Filesystem.TempFile(dir, prefix))
}

// Chroot implements billy.Chroot.
func (b *limitedFS) Chroot(name string) (billy.Filesystem, error) {
	below, err := b.Filesystem.Chroot(name)
	return &limitedFS{Filesystem: below, remaining: b.remaining}, err
}

func (b *limitedFS) file(f billy.File, err error) (billy.File, error) {
	if err != nil {
		return nil, err
	}
	return &limitedFile{File: f, remaining: b.remaining}, nil
}

type limitedFile struct {
	billy.File
	remaining *atomic.Int64
}

// Write implements io.Writer.
func (f *limitedFile) Write(p []byte) (int, error) {
	if f.remaining.Add(-int64(len(p))) < 0 {
		return 0, errors.New("the byte limit is reached")
	}
	return f.File.Write(p)
}
