package api

import (
	"reflect"

	"barnabas/internal/errcode"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxRefusedBytes limits the size of a request that is answered with an error during a login. The response takes much
// more memory than the request, and the client has not authenticated.
const maxRefusedBytes = 1 << 10

// Refuse answers a request that must not come now with an error for the request and for each of its items
// (AbstractRequest.getErrorResponse, 3.9). A request that cannot be decoded, is too large, or expects no response gets
// none.
func (h *Handlers) Refuse(r *network.Request, why error) (network.Answer, error) {
	c := &Call{Request: r}
	if len(r.Body) > maxRefusedBytes {
		return network.Answer{}, why
	}
	if offered := h.rows[r.Key]; r.Key == int16(kmsg.ApiVersions) && (c.Version < offered.min || c.Version > offered.max) {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = errcode.Of(why)
		return network.Ready(resp), nil
	}
	req := kmsg.RequestForKey(r.Key)
	if err := decode(req, c); err != nil {
		return network.Answer{}, err
	}
	if produce, is := req.(*kmsg.ProduceRequest); is && produce.Acks == 0 {
		return network.Answer{}, why
	}
	return ready(c, failed(req, why)), nil
}

// failed is the response to a request that was not carried out.
func failed(req kmsg.Request, why error) kmsg.Response {
	resp := req.ResponseKind()
	f := failure{errcode.Of(why), message(why)}
	f.fill(reflect.ValueOf(resp).Elem(), reflect.ValueOf(req).Elem())
	return resp
}

// failure fills in an error wherever a response has a field for one. The wire library's structs use the same names for
// the items of a request and of its response, so that one implementation serves all APIs.
type failure struct {
	code int16
	text *string
}

// keysOf maps lists in responses to the lists of keys in requests that have other names.
var keysOf = map[string]string{"Coordinators": "CoordinatorKeys"}

// identities are the fields that identify an item in a response.
var identities = map[string]bool{"Topic": true, "TopicID": true, "Partition": true, "Group": true, "TransactionalID": true,
	"ResourceType": true, "ResourceName": true, "Key": true, "Name": true, "User": true}

func (f failure) fill(out, in reflect.Value) {
	for i := range out.NumField() {
		name, field := out.Type().Field(i).Name, out.Field(i)
		switch {
		case name == "ErrorCode":
			field.SetInt(int64(f.code))
		case name == "ErrorMessage":
			field.Set(reflect.ValueOf(f.text))
		case name == "BaseOffset", name == "HighWatermark", name == "NodeID", name == "Port":
			field.SetInt(-1) // none
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			asked := in.FieldByName(name)
			if other, is := keysOf[name]; is {
				asked = in.FieldByName(other)
			}
			if asked.IsValid() && asked.Kind() == reflect.Slice {
				f.fillList(field, asked)
			}
		case identities[name]:
			if same := in.FieldByName(name); same.IsValid() && same.Type() == field.Type() {
				field.Set(same)
			}
		}
	}
}

// fillList answers each requested item.
func (f failure) fillList(out, asked reflect.Value) {
	for i := range asked.Len() {
		one := reflect.New(out.Type().Elem())
		if d, is := one.Interface().(interface{ Default() }); is {
			d.Default()
		}
		switch in := asked.Index(i); {
		case in.Kind() == reflect.Struct:
			f.fill(one.Elem(), in)
		default: // a bare name or number
			f.fill(one.Elem(), reflect.New(one.Type().Elem()).Elem())
			setIdentity(one.Elem(), in)
		}
		out.Set(reflect.Append(out, one.Elem()))
	}
}

// setIdentity sets the first field that identifies an item.
func setIdentity(out, value reflect.Value) {
	for i := range out.NumField() {
		field := out.Field(i)
		switch {
		case !identities[out.Type().Field(i).Name]:
		case field.Type() == value.Type():
			field.Set(value)
			return
		case field.Kind() == reflect.Pointer && field.Type().Elem() == value.Type():
			field.Set(reflect.New(value.Type()))
			field.Elem().Set(value)
			return
		}
	}
}
