"""The labels of the built-in triage task, in words that fit any product."""

from __future__ import annotations

from collections.abc import Mapping

from weighbridge.schemas.labels import Label

INSTRUCTIONS = "You sort customer support tickets. Read the ticket and choose what fits best."

CATEGORIES: Mapping[str, Label] = {
    "billing": Label(
        description="charges, invoices, refunds, prices, payment methods",
        phrases=(
            "I was charged twice.",
            "The amount on my invoice is wrong.",
            "I want a refund of this payment.",
            "Please send me a receipt with our VAT number.",
            "My card was declined and I need to update my payment method.",
            "Why did the price go up?",
            "A discount code was not applied.",
            "There is a charge on my statement that I do not recognise.",
            "How much does it cost per month?",
            "Money was taken from my account.",
            "I would like an invoice for my company.",
            "Do you offer a discount for charities?",
            "I have not received my money back yet.",
        ),
    ),
    "bug": Label(
        description="something is broken: an error, a crash, a wrong result",
        phrases=(
            "The app crashes when I open it.",
            "The page is blank since the last update.",
            "I get an error message.",
            "It stopped working.",
            "The export has the wrong numbers in it.",
            "The button does nothing when I click it.",
            "It is extremely slow and times out.",
            "Something is broken.",
            "Data is missing or shown twice.",
            "It used to work and now it does not.",
            "The totals do not add up.",
            "The device shows as offline and does not respond.",
            "Text is displayed incorrectly on this screen.",
            "The sync fails and items come back or disappear.",
            "There is a typo in the text.",
        ),
    ),
    "cancellation": Label(
        description="wants to end the subscription or close the account",
        phrases=(
            "Please cancel my subscription.",
            "I want to close my account and delete my data.",
            "Do not renew my plan.",
            "We are leaving and no longer need the service.",
            "I want to end my free trial before it renews.",
            "Stop my membership.",
            "We have switched to another provider.",
            "I want to terminate the contract.",
            "Please erase my personal data.",
            "I am not using it any more, so please end it.",
            "Remove me as a customer.",
        ),
    ),
    "how_to": Label(
        description="asks how to use or set up something that exists",
        phrases=(
            "How do I set this up?",
            "Where can I find this setting?",
            "Is there a way to do this?",
            "Can you explain how this works?",
            "What are the steps to connect it?",
            "I cannot figure out how to use this feature.",
            "Which option do I choose?",
            "Can I change this myself, and where?",
            "Which settings should I use for this?",
            "Can you point me to the right screen?",
            "I am new here and do not know where to start.",
            "How do I export, import or share this?",
            "Does this plan allow it, and how do I turn it on?",
        ),
    ),
    "account_access": Label(
        description="cannot get in: login, password, codes, locked account, invitation",
        phrases=(
            "I cannot log in.",
            "The password reset email never arrives.",
            "My account is locked.",
            "The verification code does not work.",
            "I lost my phone and cannot get past two-factor authentication.",
            "My account was hacked.",
            "The invitation link has expired and I cannot join.",
            "I do not have permission to open it.",
            "It says my username or password is wrong.",
            "I keep getting sent back to the sign-in page.",
            "Somebody else got into my account.",
        ),
    ),
    "feature_request": Label(
        description="wishes for something that does not exist yet",
        phrases=(
            "It would be great if you added this.",
            "Please add support for this.",
            "I wish there was an option for this.",
            "Suggestion: let us customise it.",
            "Is this on your roadmap?",
            "We would love an integration with another tool.",
            "Have you considered adding a dark mode?",
            "It would save us time if it could do this automatically.",
            "At the moment it is only possible one way; please allow the other as well.",
            "A small idea to make this better.",
            "It is missing a function that I need.",
        ),
    ),
}

# Degrees, not topics: no label prior judges them, so they need no phrases.
PRIORITIES: Mapping[str, Label] = {
    "low": Label(description="no hurry: an idea, a small flaw, general interest"),
    "normal": Label(description="should be answered in the usual time"),
    "high": Label(description="somebody is held up or loses money, and there is no good way round"),
    "urgent": Label(
        description="many are stopped, data or security is at risk, or a deadline is hours away"
    ),
}
