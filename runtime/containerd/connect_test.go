package containerd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	versionapi "github.com/containerd/containerd/api/services/version/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// listen opens a socket below a short path, and serves it until the test ends.
func listen(t *testing.T, serve func(net.Listener)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { serve(l) })
	t.Cleanup(func() { l.Close(); done.Wait() })
	return path
}

// eachConn calls handle with every connection, one after the other.
func eachConn(handle func(net.Conn)) func(net.Listener) {
	return func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c)
			c.Close()
		}
	}
}

type versionServer struct {
	versionapi.UnimplementedVersionServer
}

func (versionServer) Version(context.Context, *emptypb.Empty) (*versionapi.VersionResponse, error) {
	return &versionapi.VersionResponse{Version: "2.4.2"}, nil
}

func TestConnectReportsWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "dead")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()

	tests := []struct {
		name, socket string
		want         error
	}{
		{"missing", filepath.Join(dir, "none"), ErrNoSocket},
		{"a file", file, ErrNoSocket},
		{"refused", dead, ErrRefused},
		{"another protocol", listen(t, eachConn(func(c net.Conn) {
			io.WriteString(c, "220 mail.example ESMTP\r\n")
			c.SetReadDeadline(time.Now().Add(time.Second))
			io.Copy(io.Discard, c)
		})), ErrNotContainerd},
		{"silence", listen(t, eachConn(func(c net.Conn) { io.Copy(io.Discard, c) })), ErrNotContainerd},
		{"another gRPC service", listen(t, func(l net.Listener) { grpc.NewServer().Serve(l) }), ErrNotContainerd},
		{"no CRI plugin", listen(t, func(l net.Listener) {
			s := grpc.NewServer()
			versionapi.RegisterVersionServer(s, versionServer{})
			s.Serve(l)
		}), ErrNoCRI},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r, err := Connect(ctx, tt.socket, slog.New(slog.DiscardHandler))
			if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "connect to containerd: ") {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if r != nil {
				t.Error("a runtime came with the error")
			}
		})
	}
}
