// Add and use passkeys: ask the server for options, the browser for a passkey, and send its answer with the form.

const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const withBytes = (list) => (list ?? []).map((each) => ({ ...each, id: bytes(each.id) }));

async function create(options) {
  const made = await navigator.credentials.create({
    publicKey: {
      ...options,
      challenge: bytes(options.challenge),
      user: { ...options.user, id: bytes(options.user.id) },
      excludeCredentials: withBytes(options.excludeCredentials),
    },
  });
  const { clientDataJSON, attestationObject } = made.response;
  return answer(made, { clientDataJSON: text(clientDataJSON), attestationObject: text(attestationObject) });
}

async function use(options) {
  const used = await navigator.credentials.get({
    publicKey: { ...options, challenge: bytes(options.challenge), allowCredentials: withBytes(options.allowCredentials) },
  });
  const { clientDataJSON, authenticatorData, signature, userHandle } = used.response;
  return answer(used, {
    clientDataJSON: text(clientDataJSON),
    authenticatorData: text(authenticatorData),
    signature: text(signature),
    userHandle: userHandle ? text(userHandle) : null,
  });
}

const answer = (credential, response) => ({
  id: credential.id,
  rawId: text(credential.rawId),
  type: credential.type,
  authenticatorAttachment: credential.authenticatorAttachment ?? null,
  clientExtensionResults: {},
  response,
});

function explain(error) {
  if (error.name === "NotAllowedError") return "The browser did not use a passkey: it was cancelled, took too long, or there is none for this site.";
  if (error.name === "InvalidStateError") return "This device has a passkey of your account already.";
  if (error.name === "SecurityError") return "Passkeys work over https and on localhost only. Open this page by its public name.";
  return error.message;
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !window.PublicKeyCredential;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const note = form.querySelector("[role=alert]");
    const button = form.querySelector("button");
    note.hidden = true;
    button.disabled = true;
    try {
      const reply = await fetch(form.dataset.options, { headers: { Accept: "application/json" } });
      if (!reply.ok || reply.redirected) throw new Error("The server did not answer as expected. Reload the page and try again.");
      const { options, ceremony } = await reply.json();
      const credential = await (form.dataset.passkey === "create" ? create(options) : use(options));
      form.elements.ceremony.value = ceremony;
      form.elements.credential.value = JSON.stringify(credential);
      form.submit();
    } catch (error) {
      note.textContent = explain(error);
      note.hidden = false;
    }
    button.disabled = false;
  });
}
