"""A read-eval-print loop as most programs make one with prompt_toolkit."""

from prompt_toolkit import PromptSession

session = PromptSession()
while True:
    try:
        result = eval(session.prompt("pt> "))
    except EOFError:
        break
    except Exception as error:
        result = repr(error)
    if result is not None:
        print(result)
