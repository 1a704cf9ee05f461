package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"
)

// CheckWebConfig checks a web configuration file in the format of Prometheus' exporters. The error
// names the file and the field. "" is valid.
func CheckWebConfig(file string) error {
	err := web.Validate(file)
	if err == nil {
		return nil
	}
	field := ""
	var path *fs.PathError
	switch text := err.Error(); {
	case strings.HasPrefix(text, "crypto/bcrypt: "):
		field = "basic_auth_users: "
	case strings.HasPrefix(text, "yaml: "), strings.Contains(text, "HTTP header"), errors.As(err, &path) && path.Path == file:
		// These errors name their cause themselves.
	default:
		field = "tls_server_config: "
	}
	return fmt.Errorf("%s: %s%w", file, field, err)
}

// ServeProtected is [Serve] with the TLS and the passwords of a web configuration file. The file is
// read again for each connection and request. With "" it is Serve itself. Refused clients are
// logged at level debug only, because any client that reaches the port can be refused.
func ServeProtected(ctx context.Context, listener net.Listener, handler http.Handler, webConfig string, log *slog.Logger) error {
	if webConfig == "" {
		return Serve(ctx, listener, handler)
	}
	server := newServer(handler)
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return serve(ctx, server, func() error {
		err := web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &webConfig}, slog.New(warnings{log.Handler()}))
		if !errors.Is(err, http.ErrServerClosed) {
			err = errors.Join(err, ignoreClosed(listener.Close())) // it may have failed before it served
		}
		return err
	})
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// warnings drops records below level warning: the library repeats ebb's own lines.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
