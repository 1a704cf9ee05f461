package image

import (
	"bytes"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/ebb-agent/ebb/tools/ociarchive"
)

// archived writes an archive of an image with that name into a new directory.
func archived(t *testing.T, name string) (dir string) {
	t.Helper()
	var b bytes.Buffer
	if err := ociarchive.Write(&b, named(testIndex(t, testFacts), name), noon); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ArchiveFile), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPush: what the registry has is what was made, by its digest and for every architecture, and
// it is pushed with the credentials of docker login.
func TestPush(t *testing.T) {
	there := registry.New(registry.Logger(log.New(&bytes.Buffer{}, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		there.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	dir := archived(t, host+"/team/ebb:v1.2.3")
	login := t.TempDir()
	t.Setenv("DOCKER_CONFIG", login)
	if _, err := Push(t.Context(), dir); err == nil || !strings.Contains(err.Error(), host+"/team/ebb:v1.2.3") {
		t.Errorf("without a login: %v", err)
	}
	const auth = "bWU6c2VjcmV0" // me:secret
	if err := os.WriteFile(filepath.Join(login, "config.json"), []byte(`{"auths":{"`+host+`":{"auth":"`+auth+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	pinned, err := Push(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := testIndex(t, testFacts).Digest()
	if err != nil {
		t.Fatal(err)
	}
	if pinned != host+"/team/ebb:v1.2.3@"+want.String() {
		t.Errorf("pushed as %s", pinned)
	}
	unauthorized := httptest.NewServer(there) // the same registry, for everybody
	defer unauthorized.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(unauthorized.URL, "http://") + "/team/ebb:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(got); err != nil {
		t.Error(err)
	}
	if digest, err := got.Digest(); err != nil || digest != want {
		t.Errorf("the registry has %s: %v", digest, err)
	}
}

// TestPushFails: nothing was made, or what lies there is no archive of one image.
func TestPushFails(t *testing.T) {
	none := t.TempDir()
	if _, err := Push(t.Context(), none); err == nil || !strings.Contains(err.Error(), filepath.Join(none, ArchiveFile)) {
		t.Errorf("nothing made: %v", err)
	}
	for _, bad := range []string{"ebb", "example.com/ebb"} { // without a registry, without a tag
		if _, err := Push(t.Context(), archived(t, bad)); err == nil {
			t.Errorf("%q was pushed", bad)
		}
	}
	garbage := t.TempDir()
	if err := os.WriteFile(filepath.Join(garbage, ArchiveFile), []byte(strings.Repeat("no tar", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Push(t.Context(), garbage); err == nil || !strings.Contains(err.Error(), "tar") {
		t.Errorf("garbage: %v", err)
	}
}
