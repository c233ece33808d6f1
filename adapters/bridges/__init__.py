"""A few lines for each agent SDK; import the module of yours, which imports the SDK when it is called.

>>> from lastword.adapters.bridges.langchain import langchain_tools

Each makes the SDK's own objects of the list that `tool_specs` gives.  A tool's answer is shown to the model as JSON.
"""
