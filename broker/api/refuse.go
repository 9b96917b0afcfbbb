package api

import (
	"reflect"

	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxRefusedBytes is how large a request may be to be answered with an error amid a login. Answers take much more memory than
// what is asked, and who asks is not known.
const maxRefusedBytes = 1 << 10

// Refuse answers a request that must not come now with an error, for the request and for all that it asks about
// (AbstractRequest.getErrorResponse, 3.9). A request that cannot be read, is too large for that, or wants no answer, gets none.
func (h *Handlers) Refuse(r *network.Request, why error) (network.Answer, error) {
	c := &Call{Request: r}
	if len(r.Body) > maxRefusedBytes {
		return network.Answer{}, why
	}
	if offered := h.rows[r.Key]; r.Key == int16(kmsg.ApiVersions) && (c.Version < offered.min || c.Version > offered.max) {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = code(why)
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

// failed is the answer to a request of which nothing was done.
func failed(req kmsg.Request, why error) kmsg.Response {
	resp := req.ResponseKind()
	f := failure{code(why), message(why)}
	f.fill(reflect.ValueOf(resp).Elem(), reflect.ValueOf(req).Elem())
	return resp
}

// failure is put wherever a response has room for an error. The wire library's structs name what is asked about and what is
// answered alike, which saves one function for each API.
type failure struct {
	code int16
	text *string
}

// keysOf are lists of answers for which the request has a list of names of another name.
var keysOf = map[string]string{"Coordinators": "CoordinatorKeys"}

// identities are the fields that say what an answer is about.
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

// fillList answers each that was asked about.
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

// setIdentity sets the first field that says what an answer is about.
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
