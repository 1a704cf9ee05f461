package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// server answers what a test puts into it.
type server struct {
	runtimeapi.UnimplementedImageServiceServer
	runtimeapi.UnimplementedRuntimeServiceServer

	images  []*runtimeapi.Image
	info    map[string]string
	removed []string
	events  []*runtimeapi.ContainerEventResponse
	err     error
}

func (s *server) GetContainerEvents(_ *runtimeapi.GetEventsRequest, out grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	for _, e := range s.events {
		if err := out.Send(e); err != nil {
			return err
		}
	}
	return s.err
}

func (s *server) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{Images: s.images}, s.err
}

func (s *server) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	for _, i := range s.images {
		if i.Id == r.Image.Image {
			return &runtimeapi.ImageStatusResponse{Image: i}, s.err
		}
	}
	return &runtimeapi.ImageStatusResponse{}, s.err
}

func (s *server) RemoveImage(_ context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	s.removed = append(s.removed, r.Image.Image)
	return &runtimeapi.RemoveImageResponse{}, s.err
}

func (s *server) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Info: s.info}, s.err
}

func (s *server) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{
		{Id: "old", ImageRef: "sha256:a", State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		{Id: "new", ImageRef: "name", ImageId: "sha256:b", State: runtimeapi.ContainerState_CONTAINER_CREATED},
		{Id: "dead", ImageRef: "sha256:a", State: runtimeapi.ContainerState_CONTAINER_EXITED},
		{Id: "lost", ImageRef: "sha256:a", State: runtimeapi.ContainerState_CONTAINER_UNKNOWN},
		{Id: "later", ImageRef: "sha256:a", State: 9},
	}}, s.err
}

// serve runs s over memory and returns a client of it.
func serve(t *testing.T, register func(*grpc.Server)) *Client {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.MaxSendMsgSize(maxMessage))
	register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return New(conn)
}

func serveAll(t *testing.T, s *server) *Client {
	return serve(t, func(g *grpc.Server) {
		runtimeapi.RegisterImageServiceServer(g, s)
		runtimeapi.RegisterRuntimeServiceServer(g, s)
	})
}

func id(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func TestListImages(t *testing.T) {
	s := &server{images: []*runtimeapi.Image{
		{Id: id(1), RepoTags: []string{"a:1"}, RepoDigests: []string{"a@sha256:0"}, Size: 7, Pinned: true},
		{Id: "a:1"}, {Id: ""}, {Id: "sha256:" + strings.Repeat("A", 64)}, // no names to remove by
	}}
	got, err := serveAll(t, s).ListImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].ID != id(1) || !got[0].Pinned || got[0].Bytes != 7 ||
		!slices.Equal(got[0].Names, []string{"a:1", "a@sha256:0"}) {
		t.Errorf("got %+v", got)
	}
}

// Ten times what gRPC takes by default.
func TestListImagesLong(t *testing.T) {
	s := &server{}
	for i := range 2000 {
		s.images = append(s.images, &runtimeapi.Image{Id: id(i), RepoTags: []string{strings.Repeat("x", 10_000)}})
	}
	got, err := serveAll(t, s).ListImages(t.Context())
	if err != nil || len(got) != 2000 {
		t.Errorf("got %d images, %v", len(got), err)
	}
}

func TestImageStatus(t *testing.T) {
	c := serveAll(t, &server{images: []*runtimeapi.Image{{Id: id(1)}}})
	if got, err := c.ImageStatus(t.Context(), id(1)); err != nil || got.ID != id(1) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.ImageStatus(t.Context(), id(2)); !errors.Is(err, inventory.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

// A tag or a short ID could mean another image by the time it is removed.
func TestOnlyFullIDs(t *testing.T) {
	s := &server{}
	c := serveAll(t, s)
	for _, bad := range []string{"", "busybox", "sha256:", id(1)[:20], id(1) + "0", strings.ToUpper(id(10)), "md5:" + id(1)[7:]} {
		if err := c.RemoveImage(t.Context(), bad); !errors.Is(err, errBadID) {
			t.Errorf("remove %q: got %v", bad, err)
		}
		if _, err := c.ImageStatus(t.Context(), bad); !errors.Is(err, errBadID) {
			t.Errorf("status %q: got %v", bad, err)
		}
	}
	if len(s.removed) != 0 {
		t.Errorf("the runtime was asked to remove %q", s.removed)
	}
}

func TestRemoveImage(t *testing.T) {
	s := &server{}
	c := serveAll(t, s)
	if err := c.RemoveImage(t.Context(), id(1)); err != nil || !slices.Equal(s.removed, []string{id(1)}) {
		t.Errorf("removed %q, %v", s.removed, err)
	}
	s.err = status.Error(codes.NotFound, "gone")
	if err := c.RemoveImage(t.Context(), id(1)); err != nil {
		t.Errorf("an image that is gone: %v", err)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		from error
		want error
	}{
		{status.Error(codes.NotFound, "x"), inventory.ErrNotFound},
		{status.Error(codes.Unavailable, "x"), inventory.ErrUnavailable},
		{status.Error(codes.Unimplemented, "x"), ErrUnimplemented},
		{status.Error(codes.Unknown, "write /a/meta.db: no space left on device"), inventory.ErrNoSpace},
		{status.Error(codes.Unknown, "server is not initialized yet"), inventory.ErrUnavailable},
	}
	s := &server{}
	c := serveAll(t, s)
	for _, tt := range tests {
		s.err = tt.from
		_, err := c.ListImages(t.Context())
		if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "list images: ") {
			t.Errorf("%v became %v", tt.from, err)
		}
	}
	s.err = status.Error(codes.Internal, "x")
	if _, err := c.ListImages(t.Context()); status.Code(err) != codes.Internal {
		t.Errorf("an unknown code was lost: %v", err)
	}
}

func TestNoCRI(t *testing.T) {
	c := serve(t, func(*grpc.Server) {})
	if _, _, err := c.Version(t.Context()); !errors.Is(err, ErrUnimplemented) {
		t.Errorf("got %v, want unimplemented", err)
	}
}

func TestListContainers(t *testing.T) {
	got, err := serveAll(t, &server{}).ListContainers(t.Context())
	want := []Container{
		{"old", "sha256:a", container.StateRunning}, {"new", "sha256:b", container.StateCreated},
		{"dead", "sha256:a", container.StateExited}, {"lost", "sha256:a", container.StateUnknown}, {"later", "sha256:a", 0},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestSandboxImage(t *testing.T) {
	tests := []struct{ config, want string }{
		{`{"sandboxImage":"registry.k8s.io/pause:3.6","containerd":{"snapshotter":"overlayfs"}}`, "registry.k8s.io/pause:3.6"},
		{`{"sandboxImage":""}`, ""},
		{`{"containerd":{}}`, ""},
		{`{"sandboxImage":7}`, ""},
		{`["sandboxImage"]`, ""},
		{``, ""},
		{`{"sandboxImage":"` + strings.Repeat("x", maxName+1) + `"}`, ""},
	}
	for _, tt := range tests {
		s := &server{info: map[string]string{"config": tt.config}}
		got, err := serveAll(t, s).SandboxImage(t.Context())
		if err != nil || got != tt.want {
			t.Errorf("%.60s: got %q, %v; want %q", tt.config, got, err, tt.want)
		}
	}
}

func FuzzSandboxImage(f *testing.F) {
	f.Add(`{"sandboxImage":"pause"}`)
	f.Add(`{"sandboxImage":"a","sandboxImage":["b"]}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, config string) {
		if name := sandboxImage(config); len(name) > maxName {
			t.Errorf("a name of %d bytes", len(name))
		}
	})
}

// What has ended or gone is reported. What began is reported by containerd.
func TestEvents(t *testing.T) {
	s := &server{err: status.Error(codes.Unavailable, "broke")}
	for id, kind := range []runtimeapi.ContainerEventType{
		runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, 77,
	} {
		s.events = append(s.events, &runtimeapi.ContainerEventResponse{ContainerId: fmt.Sprint(id), ContainerEventType: kind})
	}
	var got []inventory.Event
	var refuses error
	send := func(e inventory.Event) error {
		got = append(got, e)
		return refuses
	}
	err := serveAll(t, s).Events(t.Context(), "k8s.io", send)
	if !errors.Is(err, inventory.ErrUnavailable) {
		t.Errorf("ended with %v", err)
	}
	want := []inventory.Event{
		{Kind: inventory.EventTask, Namespace: "k8s.io", Container: "2", Ended: true},
		{Kind: inventory.EventContainer, Namespace: "k8s.io", Container: "3"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	err = serve(t, func(*grpc.Server) {}).Events(t.Context(), "k8s.io", send)
	if !errors.Is(err, ErrUnimplemented) {
		t.Errorf("without a service: %v", err)
	}
	refuses = errors.New("nobody listens")
	if err := serveAll(t, s).Events(t.Context(), "k8s.io", send); !errors.Is(err, refuses) {
		t.Errorf("nobody listens: %v", err)
	}
}
