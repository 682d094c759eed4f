"""The texts of the pages in Portuguese. The key is the English text; `static/texts.js` has those of the scripts."""

from __future__ import annotations

from typing import Any, Literal

Language = Literal["en", "pt"]

PT: dict[str, str] = {
    "{company} has a seat for you. There is nothing to pay.": "{company} tem um lugar para si. Não há nada a pagar.",
    "{days} more days for {amount}.": "Mais {days} dias por {amount}.",
    "{free} of {total} places left": "{free} de {total} vagas livres",
    "{free} seats are free.": "Há {free} lugares livres.",
    "{percent} % of the course": "{percent} % do curso",
    "{percent} % of the live sessions": "{percent} % das sessões ao vivo",
    "{school} confirms that {student} has completed the course {course}.": (
        "{school} confirma que {student} concluiu o curso {course}."
    ),
    "{total} places": "{total} vagas",
    "All seats of {company} are taken, or the course is over. Ask the person who gave you the link.": (
        "Todos os lugares de {company} estão ocupados, ou o curso terminou. Fale com quem lhe deu a ligação."
    ),
    "Apply": "Aplicar",
    "A mail is on its way to {address}. It has everything about the course.": (
        "Enviámos um email para {address}, com tudo sobre o curso."
    ),
    "A mail tells you when you are enrolled. You can close this page.": (
        "Receberá um email quando a inscrição estiver confirmada. Pode fechar esta página."
    ),
    "A place is reserved for you until": "Há uma vaga reservada para si até",
    "Add to calendar (.ics)": "Adicionar ao calendário (.ics)",
    "Back to the course, if you have not paid": "Voltar ao curso, se não pagou",
    "Certificate": "Certificado",
    "Challenges for advanced students": "Desafios para estudantes avançados",
    "Chat": "Chat",
    "Check the certificate": "Verificar o certificado",
    "Check your mail": "Veja o seu email",
    "Checked": "Verificado",
    "Compare the name with the person who gave you the link, and the id with the one on the document.": (
        "Compare o nome com a pessoa que lhe deu a ligação, e o código com o do documento."
    ),
    "Completed": "Concluído",
    "Connection lost. Reconnecting…": "Ligação perdida. A ligar de novo…",
    "Connection lost. The places left may have changed. Reconnecting…": (
        "Ligação perdida. As vagas livres podem ter mudado. A ligar de novo…"
    ),
    "Content": "Conteúdo",
    "Continue to payment": "Continuar para o pagamento",
    "Course": "Curso",
    "Course dates": "Datas do curso",
    "Courses": "Cursos",
    "Courses of {name}": "Cursos de {name}",
    "Credential id": "Código da credencial",
    "Discount code": "Código de desconto",
    "Email address": "Endereço de email",
    "Enrol": "Inscrever-me",
    "Enrolling needs JavaScript.": "A inscrição precisa de JavaScript.",
    "Enrolment for this course is closed.": "As inscrições para este curso estão fechadas.",
    "Exit survey": "Inquérito final",
    "Extend your access": "Prolongar o acesso",
    "Extend your access to {name}": "Prolongar o acesso a {name}",
    "For you": "Para si",
    "Give feedback on a session": "Dar opinião sobre uma sessão",
    "How full the course is": "Ocupação do curso",
    "How full {name} is": "Ocupação de {name}",
    "How to trust this page": "Como confiar nesta página",
    "I have a discount code": "Tenho um código de desconto",
    "Issued by": "Emitido por",
    "Issued on": "Emitido em",
    "It was revoked, or its details were removed at the student's request.": (
        "Foi revogado, ou os seus dados foram removidos a pedido do estudante."
    ),
    "It was used, or its time is over. If you still want a place, you are invited again when one is free.": (
        "Já foi usado, ou o prazo terminou. Se ainda quiser uma vaga, receberá novo convite quando houver uma livre."
    ),
    "Join the call": "Entrar na chamada",
    "Join the waitlist": "Entrar na lista de espera",
    "Live sessions": "Sessões ao vivo",
    "Message": "Mensagem",
    "Messages": "Mensagens",
    "My courses": "Os meus cursos",
    "Name": "Nome",
    "No courses are open at the moment.": "De momento não há cursos abertos.",
    "No longer valid": "Já não é válido",
    "Not found": "Não encontrado",
    "Number": "Número",
    "On": "Em",
    "One moment": "Um momento",
    "Only this page says whether the certificate is valid today: a certificate can be revoked.": (
        "Só esta página diz se o certificado é válido hoje: um certificado pode ser revogado."
    ),
    "Open": "Abrir",
    "Open the PDF": "Abrir o PDF",
    "Paid": "Pago",
    "Pay in {count} instalments": "Pagar em {count} prestações",
    "Preparation": "Preparação",
    "Preparation for beginners": "Preparação para principiantes",
    "Prepare for the course": "Preparar-se para o curso",
    "Prepare for {name}": "Preparar-se para {name}",
    "Receipt": "Recibo",
    "See all courses": "Ver todos os cursos",
    "Send": "Enviar",
    "Send the link": "Enviar a ligação",
    "Sign in": "Entrar",
    "Sign in now": "Entrar agora",
    "Sign out": "Sair",
    "Skip to the content": "Saltar para o conteúdo",
    "Student": "Estudante",
    "Subscribe to the calendar": "Subscrever o calendário",
    "Take a seat": "Ocupar um lugar",
    "Tell us about yourself": "Fale-nos de si",
    "Thank you": "Obrigado",
    "The school signs the Open Badge. Its status list says whether it was revoked.": (
        "A escola assina o Open Badge. A sua lista de estado diz se foi revogado."
    ),
    "The chat is open while the course runs.": "O chat está aberto enquanto o curso decorre.",
    "The course is full.": "O curso está cheio.",
    "The course starts on": "O curso começa em",
    "The id is on the certificate, beside the QR code.": "O código está no certificado, ao lado do código QR.",
    "The school": "A escola",
    "The link may be incomplete. Copy the whole link from your email, or open it there.": (
        "A ligação pode estar incompleta. Copie-a inteira do seu email, ou abra-a lá."
    ),
    "The link works once, for 30 minutes. If no mail arrives, look into the spam folder, or fill in the form again.": (
        "A ligação funciona uma vez, durante 30 minutos. Se não receber o email, veja a pasta de spam ou preencha"
        " de novo o formulário."
    ),
    "There is no certificate with the id {id}. Check the id for typing errors.": (
        "Não existe um certificado com o código {id}. Verifique se o código tem erros."
    ),
    "There is nothing to prepare.": "Não há nada a preparar.",
    "This certificate is no longer valid": "Este certificado já não é válido",
    "This certificate is valid.": "Este certificado é válido.",
    "This certificate was issued on {day}. Its details were removed at the student's request.": (
        "Este certificado foi emitido em {day}. Os seus dados foram removidos a pedido do estudante."
    ),
    "This certificate was replaced on {day} by one with corrected details. Ask the student for the new one.": (
        "Este certificado foi substituído em {day} por outro com dados corrigidos. Peça o novo ao estudante."
    ),
    "This certificate was revoked on {day}. It is not valid.": "Este certificado foi revogado em {day}. Não é válido.",
    "This course is cancelled.": "Este curso foi cancelado.",
    "This course offers no extension.": "Este curso não permite prolongar o acesso.",
    "This invite is no longer valid": "Este convite já não é válido",
    "This link was used or is too old. Ask for a new one.": (
        "Esta ligação já foi usada ou é demasiado antiga. Peça uma nova."
    ),
    "This page does not exist": "Esta página não existe",
    "To see your course, sign in with a link that we send by mail.": (
        "Para ver o seu curso, entre com uma ligação que enviamos por email."
    ),
    "To the course": "Ir para o curso",
    "Use your address at {domain}.": "Use o seu endereço de {domain}.",
    "We book the live sessions for you. One mail lists all of them.": (
        "Marcamos as sessões ao vivo por si. Um email lista-as todas."
    ),
    "We have sent you a mail. Open its link to confirm your address: then your place is yours.": (
        "Enviámos-lhe um email. Abra a ligação para confirmar o seu endereço: depois disso, a vaga é sua."
    ),
    "We send you a link by mail. It works once, for 30 minutes.": (
        "Enviamos-lhe uma ligação por email. Funciona uma vez, durante 30 minutos."
    ),
    "We wait for the payment service to confirm your payment. This page shows it when it is there.": (
        "Esperamos que o serviço de pagamentos confirme o seu pagamento. Esta página mostra-o quando chegar."
    ),
    "What comes next": "Os próximos passos",
    "You are enrolled": "A sua inscrição está confirmada",
    "You are not enrolled in a course.": "Não tem inscrição em nenhum curso.",
    "You are not enrolled. We return your payment, and a mail says why.": (
        "A inscrição não foi feita. Devolvemos o seu pagamento, e um email explica porquê."
    ),
    "Your access ended on": "O seu acesso terminou em",
    "Your access ends on": "O seu acesso termina em",
    "Your access has ended.": "O seu acesso terminou.",
    "Your payment comes back": "O seu pagamento é devolvido",
    "Your payment for {name} is being processed. If it fails, you can pay again.": (
        "O seu pagamento de {name} está a ser processado. Se falhar, pode pagar de novo."
    ),
    "Your progress": "O seu progresso",
    "a student": "um estudante",
    "access ended": "acesso terminado",
    "enrolled": "inscrição ativa",
    "Free": "Grátis",
    "or {count} monthly instalments of {amount}": "ou {count} prestações mensais de {amount}",
    "refund under way": "reembolso em curso",
    "refunded": "reembolsado",
}


def translate(language: Language, text: str, **values: Any) -> str:
    """Return a text of a page in a language, with its values."""
    return (PT[text] if language == "pt" else text).format(**values)


def accepted(header: str | None) -> Language:
    """Return the language that an Accept-Language header prefers."""
    choices: list[tuple[float, int, Language]] = []
    for position, part in enumerate((header or "").split(",")[:20]):
        tag, _, weight = part.partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            continue
        name = tag.strip().lower().partition("-")[0]
        if quality > 0 and name in ("en", "pt"):
            choices.append((-quality, position, "pt" if name == "pt" else "en"))
    return min(choices)[2] if choices else "en"
