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

// CheckWebConfig returns what is wrong with a web configuration file, as Prometheus'
// exporters have it, by the names of the file and of the field. "" is right.
func CheckWebConfig(file string) error {
	err := web.Validate(file)
	if err == nil {
		return nil
	}
	field := ""
	var path *fs.PathError
	switch said := err.Error(); {
	case strings.HasPrefix(said, "crypto/bcrypt: "):
		field = "basic_auth_users: "
	case strings.HasPrefix(said, "yaml: "), strings.Contains(said, "HTTP header"), errors.As(err, &path) && path.Path == file:
		// They say themselves what they are about.
	default:
		field = "tls_server_config: "
	}
	return fmt.Errorf("%s: %s%w", file, field, err)
}

// ServeProtected is [Serve] with the TLS and the passwords of a web configuration file, which
// is read again for each connection and request; with "" it is Serve itself. Clients that
// are refused, as anybody who reaches the port can be, are not worth a line of the log.
func ServeProtected(ctx context.Context, listener net.Listener, handler http.Handler, webConfig string, log *slog.Logger) error {
	if webConfig == "" {
		return Serve(ctx, listener, handler)
	}
	server := newServer(handler)
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return serve(ctx, server, func() error {
		err := web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &webConfig}, slog.New(warnings{log.Handler()}))
		if !errors.Is(err, http.ErrServerClosed) {
			err = errors.Join(err, ignoreClosed(listener.Close())) // it may never have come to serve
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

// warnings drops what is below a warning: the library repeats ebb's own lines.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
